"""What a session says by itself while it runs, and what it says only once."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from scalable import ScalableSession
from scalable.cluster.diagnosis import LIMITS
from scalable.cluster.diagnosis.watching import (
    AGAIN_AFTER_S,
    CHANGED_AFTER_S,
    OVER_AFTER_S,
    FindingWatch,
    place_of,
    stood_still,
)
from scalable.findings import Finding, Severity
from scalable.session.driver import diagnosis
from scalable.session.driver.diagnosis import SessionObserver
from tests.helpers.session.builders import Project
from tests.helpers.session.diagnosis import findings
from tests.helpers.session.virtual import World
from tests.helpers.session.virtual_tasks import VirtualClient
from tests.helpers.waiting import until


def test_a_process_that_stood_still_was_busy_or_stopped() -> None:
    assert stood_still(12.0, 0.9).message == "this process stood still for 12 s"
    assert "kept it busy" in stood_still(12.0, 0.9).remedy
    assert "was the machine suspended" in stood_still(12.0, 0.01).remedy
    assert place_of(None) == ""


class Told:
    """A watch whose records are kept, with a clock of its own."""

    def __init__(self) -> None:
        self.records: list[tuple[str, dict[str, Any]]] = []
        self.watch = FindingWatch(lambda kind, **facts: self.records.append((kind, facts)))

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


@contextmanager
def a_session(project: Project, **target: Any) -> Iterator[tuple[ScalableSession, VirtualClient, SessionObserver]]:
    session = project.session(target=target, components={"model": {}})
    with session as client:
        observer = session.live().on_look
        assert isinstance(observer, SessionObserver)
        assert isinstance(client, VirtualClient)
        yield session, client, observer


def found(observer: SessionObserver, code: str, after: float = 0.0) -> Finding:
    """Wait until it is said; nobody says it before its limit."""
    time.sleep(after - 5 if after else 0)
    assert code not in codes(observer)
    assert until(lambda: code in codes(observer))
    return next(one for one in observer.watch.current if one.code == code)


def codes(observer: SessionObserver) -> set[str]:
    return {one.code for one in observer.watch.current}


@pytest.mark.usefixtures("world")
def test_tasks_at_the_maximum_are_told_with_what_to_raise(project: Project) -> None:
    with a_session(project, max_workers=1) as (_, client, observer):
        futures = client.map(time.sleep, [10] * 20, tag="model")
        finding = found(observer, "workers-full", LIMITS.full)
        assert finding.message.startswith("the only model worker is busy: 1 tasks run, ")
        assert finding.message.endswith(" wait, and 1 is the most allowed")
        assert finding.remedy == "to go faster, raise max_workers of the target, or call session.scale({'model': 2})"
        del futures


@pytest.mark.usefixtures("world")
def test_a_worker_kept_by_the_minimum_is_told_and_work_withdraws_it(project: Project) -> None:
    bounds = {"minimum": 1, "maximum": 2}
    with a_session(project, adaptive=bounds, cpu_price="0.5 EUR/h") as (session, client, observer):
        finding = found(observer, "idle-workers", LIMITS.idle)
        assert finding.message.startswith("1 model worker idle for 5 min")
        assert finding.message.endswith(", kept by a minimum of 1, at EUR 0.50 an hour each")
        assert finding.remedy == "lower adaptive.minimum of the target"
        future = client.submit(time.sleep, OVER_AFTER_S + 2, tag="model")
        assert until(lambda: "idle-workers" not in codes(observer))
        future.result()
    assert [one["kind"] for one in findings(session, "idle-workers")][:2] == ["finding", "finding-over"]


def test_a_worker_that_cannot_start_is_explained_once_however_often_it_is_tried(
    project: Project, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.die_at_start = lambda name: "ModuleNotFoundError: No module named 'nowhere'"
    with a_session(project, adaptive={"minimum": 0, "maximum": 1}) as (_, client, observer):
        future = client.submit(abs, -1, tag="model")
        finding = found(observer, "cannot-start")
        assert "No module named 'nowhere'" in finding.message
        assert finding.severity is Severity.ERROR
        with pytest.raises(Exception, match="No module named 'nowhere'"):
            future.result()
    assert len(project.journal("workers-refused")) > 1
    assert caplog.text.count("did not come") == 1
    assert "refused" not in caplog.text, "the alert is in the journal only"


def test_what_happened_after_the_last_look_is_told_when_a_session_is_closed(
    project: Project, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script ends at once when its work is given up, often before the next look."""
    monkeypatch.setattr(diagnosis, "LOOK_EVERY_S", float("inf"))
    world.die_at_start = lambda name: "ModuleNotFoundError: No module named 'nowhere'"
    with a_session(project, adaptive={"minimum": 0, "maximum": 1}) as (session, client, _):
        with pytest.raises(Exception, match="No module named 'nowhere'"):
            client.submit(abs, -1, tag="model").result()
        assert not findings(session, "workers-given-up")
    assert [record["kind"] for record in findings(session, "workers-given-up")] == ["finding"]


@pytest.mark.usefixtures("world")
def test_a_session_goes_on_if_its_diagnosis_fails(
    project: Project, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(now: float) -> Any:
        raise ZeroDivisionError

    with a_session(project, max_workers=1) as (_, client, observer):
        monkeypatch.setattr(observer, "snapshot", fails)
        assert until(lambda: "the diagnosis of this session stopped; the session goes on" in caplog.text)
        assert client.submit(abs, -1, tag="model").result() == 1
    assert caplog.text.count("the diagnosis of this session stopped") == 1
