"""What a session says by itself while it runs, on real processes; and what it says only once."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from scalable.cluster.diagnosis.pulse import place_of, stood_still
from scalable.cluster.diagnosis.watching import AGAIN_AFTER_S, CHANGED_AFTER_S, OVER_AFTER_S, Watch
from scalable.findings import Finding, Severity


def test_a_process_that_stood_still_was_busy_or_stopped() -> None:
    assert stood_still(12.0, 0.9).message == "this process stood still for 12 s"
    assert "kept it busy" in stood_still(12.0, 0.9).remedy
    assert "was the machine suspended" in stood_still(12.0, 0.01).remedy
    assert place_of(None) == ""


class Told:
    """A watch whose records are kept, with a clock of its own."""

    def __init__(self) -> None:
        self.records: list[tuple[str, dict[str, Any]]] = []
        self.watch = Watch(lambda kind, **facts: self.records.append((kind, facts)))

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.records]


QUEUED = Finding("workers-queued", Severity.WARNING, "model", "1 model worker queued for 30 s", essence="ordinary")

LATER = Finding("workers-queued", Severity.WARNING, "model", "1 model worker queued for 2 min", essence="ordinary")

DOWN = Finding(
    "workers-queued", Severity.WARNING, "model", "1 model worker queued: the partition is down", essence="down"
)


def test_a_finding_is_said_once_while_only_its_figures_change(caplog: pytest.LogCaptureFixture) -> None:
    told = Told()
    for second in range(100):
        told.watch.update([QUEUED if second < 50 else LATER], float(second))
    assert told.kinds() == ["finding"]
    assert caplog.messages == [QUEUED.message]


def test_a_finding_is_said_again_when_it_changes_and_after_minutes() -> None:
    told = Told()
    told.watch.update([QUEUED], 0.0)
    told.watch.update([DOWN], CHANGED_AFTER_S - 1)
    assert told.kinds() == ["finding"], "reasons that take turns are not news"
    told.watch.update([DOWN], CHANGED_AFTER_S)
    told.watch.update([DOWN], CHANGED_AFTER_S + AGAIN_AFTER_S)
    assert [facts["text"] for _, facts in told.records] == [QUEUED.message, DOWN.message, DOWN.message]


def test_what_is_over_is_withdrawn_once_with_how_long_it_lasted() -> None:
    told = Told()
    told.watch.update([QUEUED], 0.0)
    told.watch.update([QUEUED], 10.0)
    told.watch.update([], 10.5)
    assert told.watch.current == [QUEUED], "gone for a moment"
    told.watch.update([], 10.0 + OVER_AFTER_S)
    told.watch.update([], 100.0)
    assert told.kinds() == ["finding", "finding-over"]
    assert told.records[1][1] == {
        "code": "workers-queued",
        "about": "model",
        "text": QUEUED.message,
        "lasted_s": 10.0,
    }
    assert told.watch.current == []


def test_what_comes_back_soon_is_recorded_but_not_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    told = Told()
    for second in (0.0, 20.0, 40.0):
        told.watch.update([QUEUED], second)
        told.watch.update([], second + OVER_AFTER_S)
    assert told.kinds() == ["finding", "finding-over"] * 3
    assert caplog.messages == [QUEUED.message]


def test_a_note_is_logged_for_those_who_want_notes(caplog: pytest.LogCaptureFixture) -> None:
    note = Finding.note("workers-full", "", "all 2 model workers are busy", "raise it")
    with caplog.at_level(logging.INFO, logger="scalable"):
        Told().watch.update([note], 0.0)
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("INFO", "all 2 model workers are busy; raise it")
    ]
