"""A folder for half-done work, which survives a kill: where ``scalable.scratch()`` leads in a stage or a task.

Code that runs gets its folder from here without being told where that is: a stage has one beside its artefact, a task
that declares checkpoints one below the project's folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

SCRATCH: ContextVar[Callable[[], Path | None] | None] = ContextVar("SCRATCH", default=None)


def scratch() -> Path | None:
    """Return a folder of the running stage or task for half-done work; it survives a kill and goes at the end.

    A task has one if it declares ``checkpoints: true``. Nothing elsewhere, or where no folder can be had: then there is
    nothing to go on from.
    """
    asked = SCRATCH.get()
    return asked() if asked is not None else None


@contextmanager
def scratch_from(asked: Callable[[], Path | None]) -> Iterator[None]:
    """Let ``scratch()`` lead to this folder."""
    token = SCRATCH.set(asked)
    try:
        yield
    finally:
        SCRATCH.reset(token)


@contextmanager
def scratch_at(folder: Path) -> Iterator[None]:
    """Let ``scratch()`` make and lead to a folder, which is removed if what is done within succeeds."""

    def made() -> Path | None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            return None
        return folder

    with scratch_from(made):
        yield
    shutil.rmtree(folder, ignore_errors=True)
