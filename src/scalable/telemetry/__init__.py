"""What a run did and does: its folder and journal, what they amount to, and what later plans learn from it."""

from __future__ import annotations

from scalable.telemetry.folders import RunFolder, RunFolderError, UnknownRunError, runs_dir
from scalable.telemetry.history import HistoryError, learn
from scalable.telemetry.journal import Journal, JournalError
from scalable.telemetry.liveness import State, state_of
from scalable.telemetry.reading import Records, read
from scalable.telemetry.redact import redact, redact_text
from scalable.telemetry.report import report_of
from scalable.telemetry.summary import Summary

__all__ = [
    "HistoryError",
    "Journal",
    "JournalError",
    "Records",
    "RunFolder",
    "RunFolderError",
    "State",
    "Summary",
    "UnknownRunError",
    "learn",
    "read",
    "redact",
    "redact_text",
    "report_of",
    "runs_dir",
    "state_of",
]
