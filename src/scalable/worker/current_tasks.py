"""Which tasks a worker is doing, in a file that others can read even after it was killed.

Kept in shared memory, so that noting the start of a task costs a microsecond or two and no system call.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from pathlib import Path

SIZE = 64 * 1024  # room for the keys of hundreds of tasks at once; what does not fit is left out
LENGTH = 4  # bytes in front that say how long the text is
BETWEEN = "\0"


class Note:
    """The worker's side."""

    def __init__(self, path: Path) -> None:
        with path.open("wb+") as file:
            file.truncate(SIZE)
            self.memory = mmap.mmap(file.fileno(), SIZE)

    def write(self, keys: Iterable[str]) -> None:
        text = BETWEEN.join(keys).encode(errors="replace")[: SIZE - LENGTH]
        self.memory[: LENGTH + len(text)] = len(text).to_bytes(LENGTH, "little") + text


def read(path: Path) -> set[str] | None:
    """The keys of tasks that were being done; nothing if the worker never got so far as to note any."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    text = content[LENGTH : LENGTH + int.from_bytes(content[:LENGTH], "little")].decode(errors="replace")
    return set(text.split(BETWEEN)) if text else set()
