"""Results on disk: one file each, written beside and renamed, read only if its checksum holds.

A file is ``MAGIC``, the pickled result, and a SHA-256 of its key and of both. A file that is torn, corrupt, of another
key or not to be unpickled counts as no result. Nothing is forced onto the disk: what a power cut tears is a miss.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from io import BufferedReader, FileIO
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from scalable.store.leases.files import is_at

MAGIC = b"SCR1"
DIGEST_BYTES = 32
SMALL = 1 << 20  # bytes up to which a result is read at once; larger ones are checked first, then read again
PROTOCOL = 5
MISSING: Any = object()


@dataclass(frozen=True, slots=True)
class Entry:
    folder: str
    key: str

    @property
    def path(self) -> Path:
        return Path(f"{self.folder}/{self.key}.pickle")

    @property
    def part(self) -> Path:
        return Path(f"{self.folder}/{self.key}.part")

    def load(self) -> Any:
        """What was saved under the key, or ``MISSING``."""
        try:
            with FileIO(f"{self.folder}/{self.key}.pickle") as file:
                size = os.fstat(file.fileno()).st_size
                if size > SMALL:
                    return self.load_large(file, size)
                data = file.readall()
        except OSError:
            return MISSING
        body = memoryview(data)[:-DIGEST_BYTES]
        digest = sha256(self.key.encode())
        digest.update(body)
        if not data.startswith(MAGIC) or digest.digest() != data[-DIGEST_BYTES:]:
            return MISSING
        return unpickled(lambda: pickle.loads(body[len(MAGIC) :]))

    def load_large(self, file: FileIO, size: int) -> Any:
        """The same without ever holding both the file and the result in memory."""
        if file.read(len(MAGIC)) != MAGIC:
            return MISSING
        digest = sha256(self.key.encode() + MAGIC)
        left = size - len(MAGIC) - DIGEST_BYTES
        while left and (chunk := file.read(min(left, SMALL))):
            digest.update(chunk)
            left -= len(chunk)
        if file.read() != digest.digest():
            return MISSING
        file.seek(len(MAGIC))
        with BufferedReader(file) as buffered:
            return unpickled(lambda: pickle.load(buffered))

    def save(self, value: object, claim: int | None) -> None:
        """Publish a result, in the claimed file if there is one; raises what the disk or pickle has to say."""
        if claim is not None and is_at(claim, self.part):
            os.ftruncate(claim, 0)
            with os.fdopen(claim, "wb", closefd=False) as file:
                self.write(value, file)
            self.part.replace(self.path)
            return
        self.part.parent.mkdir(parents=True, exist_ok=True)
        beside = self.part.with_suffix(f".{uuid4().hex}.part")
        try:
            with beside.open("xb") as file:
                self.write(value, file)
            beside.replace(self.path)
        finally:
            beside.unlink(missing_ok=True)

    def write(self, value: object, file: IO[bytes]) -> None:
        summed = Summed(file, self.key)
        summed.write(MAGIC)
        pickle.dump(value, summed, PROTOCOL)
        file.write(summed.digest.digest())


class Summed:
    """A file that is hashed as it is written, so that a large result is never held as bytes."""

    def __init__(self, file: IO[bytes], key: str) -> None:
        self.file = file
        self.digest = sha256(key.encode())

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self.file.write(data)


def unpickled(load: Callable[[], Any]) -> Any:
    try:
        return load()
    except Exception:  # noqa: BLE001, the classes of a result may have changed or gone and raise whatever they like
        return MISSING
