"""The folder of the project whose sweep is compiled or computed: relative paths of its data start from there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

PROJECT: ContextVar[Path | None] = ContextVar("PROJECT", default=None)


@contextmanager
def in_project(folder: Path | str | None) -> Iterator[None]:
    """Let relative paths of data start from ``folder``, meanwhile; from the current folder if there is none."""
    before = PROJECT.set(Path(folder) if folder else None)
    try:
        yield
    finally:
        PROJECT.reset(before)


def located(path: str) -> Path:
    """Return where data lie; on a machine that does not have the project's folder, seen from the current one."""
    project = PROJECT.get()
    written = Path(path).expanduser()
    return project / written if project is not None and project.is_dir() else written
