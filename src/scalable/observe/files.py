"""Files that are replaced whole, and nobody's business but their owner's.

A file is written beside and then renamed, so that no reader ever sees a part. What a run leaves behind is readable by
its user alone, unless the folder it is made in is shared with a group (the set-group-ID bit says so).
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO


def write_beside(path: Path, text: str, *, private: bool = True) -> None:
    """Replace a file's content. Whoever reads, or pulls the plug, meets the old content or the new one."""
    beside = path.with_name(f".{token_hex(8)}.part")
    mode = private_mode(path.parent) & 0o666 if private else 0o666
    try:
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(file, "w", encoding="utf-8", errors="backslashreplace") as content:
            content.write(text)
            content.flush()
            os.fsync(file)
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
