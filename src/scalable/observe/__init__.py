"""What a run did and does: its folder and journal, what they amount to, and what later plans learn from it.

Most is imported when it is first used: a worker, which only keeps secrets to itself, starts some hundredths of a second
sooner without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scalable.observe.redact import redact, redact_text  # at once: the module has the name of its function

if TYPE_CHECKING:
    from scalable.observe.folders import RunFolder, RunFolderError, UnknownRunError, runs_dir
    from scalable.observe.history import HistoryError, learn
    from scalable.observe.journal import Journal, JournalError
    from scalable.observe.liveness import State, state_of
    from scalable.observe.reading import Records, read
    from scalable.observe.report import report_of
    from scalable.observe.view import RunView

HOMES = {
    "folders": ("RunFolder", "RunFolderError", "UnknownRunError", "runs_dir"),
    "history": ("HistoryError", "learn"),
    "journal": ("Journal", "JournalError"),
    "liveness": ("State", "state_of"),
    "reading": ("Records", "read"),
    "report": ("report_of",),
    "view": ("RunView",),
}
PUBLIC = {name: home for home, names in HOMES.items() for name in names}

__all__ = [
    "HistoryError",
    "Journal",
    "JournalError",
    "Records",
    "RunFolder",
    "RunFolderError",
    "RunView",
    "State",
    "UnknownRunError",
    "learn",
    "read",
    "redact",
    "redact_text",
    "report_of",
    "runs_dir",
    "state_of",
]


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module 'scalable.observe' has no attribute {name!r}")
    value = getattr(import_module(f"scalable.observe.{PUBLIC[name]}"), name)
    globals()[name] = value
    return value
