"""One artefact as one file: the pickled value with its arrays beside it, read only if every checksum holds.

A file is a head (``MAGIC``, how many parts, their lengths), the parts (the pickle, then the memory of each array as it
is) and a digest. Each mebibyte of the parts has a CRC, which a processor computes faster than a disk delivers; the
digest is a SHA-256 of the name, the head and all CRCs. It protects against torn files and failing disks, not against
people: whoever can write files of pickles can do anything. Nothing is forced onto the disk: what a power cut tears is
missing.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from hashlib import sha256
from io import FileIO
from struct import Struct
from typing import Any
from zlib import crc32

from scalable.store.caching.entries import MISSING

MAGIC = b"SCA1"
PROTOCOL = 5  # arrays are handed over, not copied
CHUNK = 1 << 20  # bytes of a part with a CRC of their own: they are still in the processor's cache when summed
LEAST_PART = 1 << 12  # bytes of an array that are worth a part of their own
MOST_PARTS = 1 << 20  # more is no head of ours
COUNT = Struct("<4sI")
LENGTH = Struct("<Q")
SUM = Struct("<I")
DIGEST_BYTES = 32


class DamagedError(Exception):
    """A file that is not what was written."""


def write(file: int, name: str, value: object) -> int:
    """Write a value to an open file; raises what the disk or pickle has to say."""
    parts = pickled(value)
    head = COUNT.pack(MAGIC, len(parts)) + b"".join(LENGTH.pack(part.nbytes) for part in parts)
    digest = sha256(name.encode() + b"\0" + head)
    put(file, memoryview(head))
    for part in parts:
        for chunk in chunks(part):
            digest.update(SUM.pack(crc32(chunk)))
            put(file, chunk)
    put(file, memoryview(digest.digest()))
    return len(head) + sum(part.nbytes for part in parts) + DIGEST_BYTES


def pickled(value: object) -> list[memoryview]:
    """The pickle of a value, and the memory of its larger arrays, which is not copied."""
    arrays: list[memoryview] = []

    def stays_within(buffer: pickle.PickleBuffer) -> bool:
        try:
            memory = buffer.raw()
        except BufferError:  # it does not lie in one piece
            return True
        if memory.nbytes < LEAST_PART or len(arrays) + 1 >= MOST_PARTS:
            return True
        arrays.append(memory)
        return False

    return [memoryview(pickle.dumps(value, PROTOCOL, buffer_callback=stays_within)), *arrays]


def put(file: int, data: memoryview) -> None:
    while data.nbytes:
        data = data[os.write(file, data) :]


def chunks(part: memoryview) -> Iterator[memoryview]:
    for start in range(0, part.nbytes, CHUNK):
        yield part[start : start + CHUNK]


def read(file: FileIO, name: str) -> Any:
    """The value in an open file, ``MISSING`` if its classes are gone; raises ``DamagedError`` and what a disk says."""
    parts = verified(file, name)
    try:
        return pickle.loads(parts[0], buffers=parts[1:])
    except Exception:  # noqa: BLE001, the classes of a value may have changed or gone and raise whatever they like
        return MISSING


def verified(file: FileIO, name: str) -> list[bytearray]:
    """The parts of a file as they were written."""
    head = file.read(COUNT.size) or b""
    if len(head) < COUNT.size:
        raise DamagedError("it is cut off")
    magic, count = COUNT.unpack(head)
    if magic != MAGIC or not 0 < count < MOST_PARTS:
        raise DamagedError("it does not begin as one")
    lengths = file.read(count * LENGTH.size) or b""
    if len(lengths) < count * LENGTH.size:
        raise DamagedError("it is cut off")
    sizes = [size for (size,) in LENGTH.iter_unpack(lengths)]
    if len(head) + len(lengths) + sum(sizes) + DIGEST_BYTES != os.fstat(file.fileno()).st_size:
        raise DamagedError("its length is wrong")
    digest = sha256(name.encode() + b"\0" + head + lengths)
    parts = [bytearray(size) for size in sizes]
    for part in parts:
        for chunk in chunks(memoryview(part)):
            fill(file, chunk)
            digest.update(SUM.pack(crc32(chunk)))
    if file.read(DIGEST_BYTES) != digest.digest():
        raise DamagedError("its checksum is wrong")
    return parts


def fill(file: FileIO, chunk: memoryview) -> None:
    while chunk.nbytes:
        got = file.readinto(chunk)
        if not got:
            raise DamagedError("it is cut off")
        chunk = chunk[got:]
