"""What operators do about sessions that are over, cannot be asked, or are not unique: from journals and the store."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.observe.builders import Record, attempt, attempt_ended, record

RUNS = Path(".scalable/runs")


def a_story(state: str = "failed", reason: str = "ValueError: -3 is negative") -> list[Record]:
    return [
        attempt("first", at=1),
        attempt_ended("first", "raised", at=2, seconds=1, message=reason),
        record("run-ended", 3, run="first", state=state, reason=reason),
        attempt("second", at=4, worker="w2"),
    ]
