"""Artefacts in a folder: ``STAGE/KEY.artefact``, written beside and renamed.

Beside an artefact may lie ``KEY.part`` (somebody computes it: a lease, which the kernel gives up with its process; the
value is written into it and renamed) and ``KEY.damaged`` (set aside). ``.scratch`` has the half-done work, ``.using``
who needs what. When an artefact was last used is kept as the time of last access.

A file is a head (``MAGIC``, how many parts, their lengths), the parts (the pickle, then the memory of each array as it
is) and a digest. Each mebibyte of the parts has a CRC, which a processor computes faster than a disk delivers; the
digest is a SHA-256 of the name, the head and all CRCs. It protects against torn files and failing disks, not against
people: whoever can write files of pickles can do anything. Nothing is forced onto the disk: what a power cut tears is
missing.
"""

from __future__ import annotations

import os
import pickle
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from hashlib import sha256
from io import FileIO
from pathlib import Path
from struct import Struct
from typing import Any, Unpack
from uuid import uuid4
from zlib import crc32

from scalable.store.artefacts.collecting import Leftover, collect
from scalable.store.artefacts.interface import Artefact, ArtefactError, Collected, Conditions, check_names, trouble
from scalable.store.caching.cache import MISSING
from scalable.store.leases import held
from scalable.store.leases.files import FileRegistration, collecting, file_lease, is_at

ENDING = ".artefact"
PART = ".part"
DAMAGED = ".damaged"
SCRATCH = ".scratch"
USING = ".using"
ABANDONED_S = 3600.0  # a file written without a claim, where none could be had, may be in the making for so long

MAGIC = b"SCA1"
PROTOCOL = 5  # arrays are handed over, not copied
CHUNK = 1 << 20  # bytes of a part with a CRC of their own: they are still in the processor's cache when summed
LEAST_PART = 1 << 12  # bytes of an array that are worth a part of their own
MOST_PARTS = 1 << 20  # more is no head of ours
COUNT = Struct("<4sI")
LENGTH = Struct("<Q")
SUM = Struct("<I")
DIGEST_BYTES = 32


class LocalArtefacts:
    """The artefacts in a folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(os.path.abspath(Path(folder).expanduser()))  # noqa: PTH100, links stay as they are
        self.url = str(self.folder)
        self.claims: dict[tuple[int, str], int] = {}

    def __reduce__(self) -> tuple[type[LocalArtefacts], tuple[str]]:
        return LocalArtefacts, (self.url,)  # claims are those of one process

    def path(self, stage: str, key: str, ending: str = ENDING) -> Path:
        check_names(stage, key)
        return self.folder / stage / f"{key}{ending}"

    def load(self, stage: str, key: str) -> Any:
        return self.look(stage, key)[0]

    def look(self, stage: str, key: str) -> tuple[Any, bool]:
        """Return the value, or ``MISSING`` and whether there was one that is damaged."""
        path = self.path(stage, key)
        try:
            with FileIO(str(path)) as file:
                try:
                    value = read_value(file, f"{stage}/{key}")
                except DamagedError:
                    self.set_aside(path, file.fileno())
                    return MISSING, True
                with suppress(OSError):  # where only reading is allowed
                    written = os.fstat(file.fileno()).st_mtime_ns
                    os.utime(file.fileno(), ns=(time.time_ns(), written))
                self.forget_scratch(stage, key)  # its writer may have been killed before it could
                return value, False
        except OSError:
            return MISSING, False

    def set_aside(self, path: Path, file: int) -> None:
        """Move it out of the way, for those who want to know what happened, unless it was replaced meanwhile."""
        with suppress(OSError):
            if is_at(file, path):
                path.replace(path.with_suffix(DAMAGED))

    def save(self, stage: str, key: str, value: Any) -> int:
        path = self.path(stage, key)
        try:
            size = self.publish(path, f"{stage}/{key}", value)
        except OSError as error:
            raise trouble(f"the result of stage {stage} could not be kept", self.url, error) from error
        except Exception as error:  # pickling runs anybody's code
            raise ArtefactError(
                f"the result of stage {stage} cannot be pickled: {error}; let it return plain values and arrays, "
                "or declare it with keep=False"
            ) from error
        self.forget_scratch(stage, key)
        return size

    def publish(self, path: Path, name: str, value: Any) -> int:
        part = path.with_suffix(PART)
        claim = self.claims.get((threading.get_ident(), str(part)))
        if claim is not None and is_at(claim, part):
            try:
                os.ftruncate(claim, 0)
                os.lseek(claim, 0, os.SEEK_SET)
                size = write_value(claim, name, value)
            except BaseException:
                os.ftruncate(claim, 0)  # a full disk needs the room
                raise
            part.replace(path)
            return size
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(f".{uuid4().hex}{PART}")
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            try:
                size = write_value(file, name, value)
            finally:
                os.close(file)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        return size

    @contextmanager
    def claimed(self, stage: str, key: str) -> Iterator[None]:
        part = self.path(stage, key, PART)
        with file_lease(part, wait=True) as file:
            if file is None:  # asked for within itself, or where files cannot be locked: nobody is waited for
                yield
                return
            mine = threading.get_ident(), str(part)
            self.claims[mine] = file
            try:
                yield
            finally:
                self.claims.pop(mine, None)

    def scratch(self, stage: str, key: str) -> Path | None:
        folder = self.scratch_path(stage, key)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            return None
        return folder

    def scratch_path(self, stage: str, key: str) -> Path:
        check_names(stage, key)
        return self.folder / SCRATCH / stage / key

    def forget_scratch(self, stage: str, key: str) -> None:
        shutil.rmtree(self.scratch_path(stage, key), ignore_errors=True)

    def list(self) -> Iterator[Artefact]:
        for stage, entry in self.entries():
            if entry.name.endswith(ENDING):
                with suppress(FileNotFoundError):  # removed meanwhile
                    stat = entry.stat()
                    key = entry.name.removesuffix(ENDING)
                    yield Artefact(stage, key, stat.st_size, stat.st_mtime, max(stat.st_atime, stat.st_mtime))

    def entries(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Yield the files of all stages."""
        with suppress(FileNotFoundError), os.scandir(self.folder) as stages:
            for stage in sorted(stages, key=lambda each: each.name):
                if not stage.name.startswith(".") and stage.is_dir():
                    with suppress(FileNotFoundError), os.scandir(stage.path) as entries:
                        for entry in entries:
                            yield stage.name, entry

    @contextmanager
    def using(self, name: str, keys: Iterable[str]) -> Iterator[None]:
        registration = FileRegistration(self.folder / USING, name, frozenset(keys))
        with ExitStack() as stack:
            try:
                stack.enter_context(held(registration))
            except OSError as error:
                raise trouble("what is in use could not be registered", self.url, error) from error
            yield

    def collect(self, **conditions: Unpack[Conditions]) -> Collected:
        try:
            return collect(self, **conditions)
        except OSError as error:
            raise trouble("artefacts could not be removed", self.url, error) from error

    def collecting(self) -> AbstractContextManager[set[str]]:
        return collecting(self.folder / USING) if self.folder.is_dir() else nullcontext(set())

    def remove(self, gone: Sequence[Artefact]) -> None:
        for artefact in gone:
            self.path(artefact.stage, artefact.key).unlink(missing_ok=True)

    def leftovers(self) -> Iterator[Leftover]:
        """Yield what interrupted work and damage left behind, and may go if nobody claims it."""
        now = time.time()
        for stage, entry in self.entries():
            path = Path(entry.path)
            with suppress(FileNotFoundError):
                stat = entry.stat()
                if path.suffix == DAMAGED:
                    yield Leftover(stage, path.stem, path, stat.st_size, 0.0)
                elif path.suffix == PART and "." not in path.stem:
                    yield Leftover(stage, path.stem, path, stat.st_size, 0.0, claim=path)
                elif path.suffix == PART and now - stat.st_mtime > ABANDONED_S:
                    yield Leftover(stage, path.stem, path, stat.st_size, 0.0)
        for folder in (self.folder / SCRATCH).glob("*/*"):
            stage, key = folder.parent.name, folder.name
            with suppress(FileNotFoundError):  # saved meanwhile
                sizes = [file.stat() for file in folder.rglob("*") if file.is_file()]
                latest = max([folder.stat().st_mtime, *(status.st_mtime for status in sizes)])
                idle = float("inf") if self.path(stage, key).exists() else now - latest
                claim = self.path(stage, key, PART)
                yield Leftover(stage, key, folder, sum(status.st_size for status in sizes), idle, claim, half_done=True)


class DamagedError(Exception):
    """A file that is not what was written."""


def write_value(file: int, name: str, value: object) -> int:
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
    """Return the pickle of a value, and the memory of its larger arrays, which is not copied."""
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


def read_value(file: FileIO, name: str) -> Any:
    """Return the value in an open file, ``MISSING`` if its classes are gone; raise ``DamagedError`` or OSError."""
    parts = verified(file, name)
    try:
        return pickle.loads(parts[0], buffers=parts[1:])
    except Exception:  # noqa: BLE001, the classes of a value may have changed or gone and raise whatever they like
        return MISSING


def verified(file: FileIO, name: str) -> list[bytearray]:
    """Return the parts of a file as they were written."""
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
