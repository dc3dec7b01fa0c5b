"""Files that are replaced whole, and nobody's business but their owner's.

A file is written beside and then renamed, so that no reader ever sees a part. What a run leaves behind is readable by
its user alone, unless the folder it is made in is shared with a group (the set-group-ID bit says so).

A seal tells which runs were made by this user where they lie now, not received from somebody else. What a run's records
name (a manifest, the code beside it, pickled work) is used without a question only if they carry a seal, which is made
with a key in the user's home that nobody else can read.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

PART = ".part"  # the end of the name of a file that is being written


def write_beside(path: Path, content: str | bytes, *, private: bool = True, mode: int | None = None) -> None:
    """Replace a file's content. Whoever reads, or pulls the plug, meets the old content or the new one.

    A new file is for its user, and for the group of a shared folder; for all if it is not ``private``; or has ``mode``.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    beside = path.with_name(f".{token_hex(8)}{PART}")
    if mode is None:
        mode = private_mode(path.parent) & 0o666 if private else 0o666
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def private_mode(folder: Path) -> int:
    """Return the mode of what is made in a folder: for its group, too, if the folder is shared with one."""
    return 0o770 if folder.stat().st_mode & stat.S_ISGID else 0o700


def make_private(folder: Path, *, exist_ok: bool = False) -> None:
    folder.mkdir(mode=private_mode(folder.parent), exist_ok=exist_ok)


def append_private(path: Path) -> int:
    """Open a file to write at its end, and return its number; a new one is readable by its user alone."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    return os.open(path, flags, private_mode(path.parent) & 0o666)


def listing(folder: Path) -> list[str]:
    """Return the names in a folder, none if it is not there. Raise OSError if it may not be read."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except (FileNotFoundError, NotADirectoryError):
        return []


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading. Raise OSError if it is no regular file: a pipe would wait for its writer for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def sealed(*texts: str) -> str:
    """Return the seal of some texts; empty where no key can be kept."""
    key = own_key()
    return hmac.new(key, "\0".join(texts).encode(errors="surrogateescape"), hashlib.sha256).hexdigest() if key else ""


def is_seal(seal: object, *texts: str) -> bool:
    right = sealed(*texts)
    return bool(right) and isinstance(seal, str) and hmac.compare_digest(seal.encode(), right.encode())


def own_key() -> bytes:
    """Return this user's key, made when it is first needed; empty where it cannot be kept or may be another's."""
    try:
        path = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "scalable" / "key"
        if not path.exists():
            make_key(path)
        about = path.stat()
        return path.read_bytes() if about.st_uid == os.geteuid() and not about.st_mode & 0o077 else b""
    except (OSError, RuntimeError):  # no home, or one that cannot be written
        return b""


def make_key(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f".{secrets.token_hex(8)}.part")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secrets.token_bytes(32))
    with suppress(FileExistsError):  # another process was faster; its key counts
        os.link(beside, path)
    beside.unlink()
