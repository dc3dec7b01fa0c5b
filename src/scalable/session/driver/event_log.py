"""Writes down every event that the engine is told and what it answers, so that the run can be replayed.

The file is apart from the journal, which people and pages read: signs of life alone are a line per job and second.
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scalable.engine import Rules
from scalable.engine.events import Event, Instruction
from scalable.observe.journal import Journal
from scalable.planning.replay import event_record, rules_record


class Recording:
    """The file of a session's events; called with each of them."""

    def __init__(self, path: Path, rules: Rules) -> None:
        self.journal = Journal(path, later=True)
        atexit.unregister(self.journal.close)  # the session closes it
        self.write(*rules_record(rules))

    def __call__(self, now: float, event: Event, instructions: Sequence[Instruction]) -> None:
        self.write(*event_record(now, event, instructions))

    def write(self, kind: str, facts: dict[str, Any]) -> None:
        self.journal.write(kind, **facts)

    def close(self) -> None:
        self.journal.close()
