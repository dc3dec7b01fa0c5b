"""The record of a run: its folder and journal, what they amount to, and what later plans learn from it.

Most is imported when it is first used: a worker, which only keeps secrets to itself, starts some hundredths of a second
sooner without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalable.exports import exports
from scalable.observe.redact import redact as redact  # at once: the module has the name of its function

if TYPE_CHECKING:  # the names of HOMES once more, for type checkers
    # isort: off
    from scalable.observe.folders import (
        RunFolder as RunFolder,
        RunFolderError as RunFolderError,
        UnknownRunError as UnknownRunError,
        runs_dir as runs_dir,
    )
    from scalable.observe.history import learn as learn
    from scalable.observe.journal import Journal as Journal
    from scalable.observe.liveness import RunState as RunState, state_of as state_of
    from scalable.observe.journal import Records as Records, read as read
    from scalable.observe.redact import redact_text as redact_text
    from scalable.observe.report import report_of as report_of
    from scalable.observe.view import RunView as RunView

HOMES = {
    "folders": ("RunFolder", "RunFolderError", "UnknownRunError", "runs_dir"),
    "history": ("learn",),
    "journal": ("Journal", "Records", "read"),
    "liveness": ("RunState", "state_of"),
    "redact": ("redact", "redact_text"),
    "report": ("report_of",),
    "view": ("RunView",),
}
__all__, __getattr__, __dir__ = exports(__name__, HOMES)
