"""The figures of a session: right, bounded, and nothing the run would suffer from."""

from __future__ import annotations

import threading
import time
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest

from scalable.cluster.workers import Member
from scalable.observe.metrics import OTHERS
from scalable.quantities import Money
from scalable.session.driver.attempts import Attempts, LiveAttempt
from scalable.session.operate import live, measures
from scalable.session.operate.measures import Dependencies, Purse, bounded, of_worker
from scalable.store.artefacts import open_artefacts
from scalable.store.tracking import open_tracker
from tests.helpers.session.builders import Project
from tests.helpers.waiting import until


def test_workers_beyond_those_told_one_by_one_are_one_for_each_tag() -> None:
    workers = [
        {
            "worker": f"w-{at}", "tag": "ab"[at % 2], "silent_s": float(at), "rows_per_min": 1,
            "cpu": 0.5, "cpus": 1, "memory": None if at == 1001 else 10, "memory_limit": 20,
        }
        for at in range(1004)
    ]  # fmt: skip
    told = list(bounded(workers))
    assert len(told) == 1002
    assert told[1000] == {
        "worker": OTHERS, "tag": "a", "silent_s": 1002.0, "rows_per_min": 2, "cpu": 1.0, "cpus": 2, "memory": 20,
        "memory_limit": 40,
    }  # fmt: skip
    assert told[1001]["memory"] == 10
    assert {sample.labels["worker"] for sample in of_worker(told[1000])} == {OTHERS}


def test_without_a_server_only_what_is_used_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    dependencies = Dependencies()
    with open_tracker(None, outbox=tmp_path) as tracker, dependencies.used(tracker, open_artefacts(tmp_path)):
        assert dependencies.states() == {}


def test_a_question_that_is_answered_too_late_is_not_told_of() -> None:
    asked, answered = threading.Event(), threading.Event()
    dependencies = Dependencies()

    def question() -> None:
        asked.set()
        answered.wait(30)
        raise OSError("it took too long")

    with dependencies.asked("objects", question):
        assert asked.wait(30)
        [thread] = [one for one in threading.enumerate() if one.name == "scalable-objects"]
    answered.set()
    until(lambda: dependencies.states() or not thread.is_alive())
    assert dependencies.states() == {}


def test_what_is_fixed_is_paid_in_the_next_month_too(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = SimpleNamespace(spent=Money(Decimal(7), "EUR"))
    found = measures.SessionMeasures(SimpleNamespace(meter=spent))  # type: ignore[arg-type]
    monthly, fixed, before = (Money(Decimal(amount), "EUR") for amount in (100, 10, 20))
    found.purse = Purse(monthly, fixed, before, "2024-05")

    def of_the_month() -> float:
        [sample] = [one for one in found.of_money() if one.metric == "scalable_cost_month_total"]
        return sample.value

    monkeypatch.setattr(measures, "month", lambda moment: "2024-05")
    assert of_the_month() == 37
    monkeypatch.setattr(measures, "month", lambda moment: "2024-06")
    assert of_the_month() == 10
    spent.spent = Money(Decimal(9), "EUR")
    assert of_the_month() == 12


def test_what_only_the_journal_is_told_is_sampled_as_its_view_counts_it() -> None:
    view = SimpleNamespace(tags={}, paused="", braked="")
    driver = SimpleNamespace(engine=SimpleNamespace(view=view), meter=None)
    found = measures.SessionMeasures(driver)  # type: ignore[arg-type]
    for number in (1, 2, 2):  # the second is told again when more is known of it
        found.heard("incident", {"id": number, "incident": "stuck"})
    for tag in ("model", "model", None):
        found.heard("retry", {"tag": tag, "cause": "worker lost"})
    found.heard("attempt-started", {"run": "fit", "worker": "model-0"})
    assert found.view.records == 6, "what no sample is made of is passed over"
    told = {(one.metric, *one.labels.values()): one.value for one in found.samples([], [])}
    assert told["scalable_incidents_total", "stuck"] == 2
    assert told["scalable_retries_total", "model", "worker lost"] == 2
    assert told["scalable_retries_total", "", "worker lost"] == 1


def test_a_clock_that_is_set_forward_makes_no_worker_late(monkeypatch: pytest.MonkeyPatch) -> None:
    template = SimpleNamespace(tag="model")
    member = Member("model-0", template, SimpleNamespace(), time.time(), time.monotonic())  # type: ignore[arg-type]
    record = SimpleNamespace(requested=0, workers=0, ahead=0, returning=0)
    view = SimpleNamespace(tags={"model": record}, paused="", braked="")
    driver = SimpleNamespace(
        engine=SimpleNamespace(view=view), counted={}, cluster=SimpleNamespace(members={member.name: member})
    )
    monkeypatch.setattr(measures, "time", SimpleNamespace(time=lambda: time.time() + 4000))

    found = measures.SessionMeasures(driver)  # type: ignore[arg-type]
    [late] = [one.value for one in found.of_tags([]) if one.metric == "scalable_scale_up_seconds"]
    assert late < 300
    member.asked -= 4000
    [late] = [one.value for one in found.of_tags([]) if one.metric == "scalable_scale_up_seconds"]
    assert late >= 4000


def test_a_clock_that_was_set_forward_makes_no_run_long() -> None:
    attempt = LiveAttempt("fit", 1, "model-0", "model", "tcp://1", time.time() - 4000, time.monotonic(), b"")
    [told] = Attempts.activity(SimpleNamespace(under_way={attempt.key: attempt}, guarded={}))  # type: ignore[arg-type]
    assert told["seconds"] < 300


@pytest.mark.usefixtures("world")
def test_what_fails_while_showing_a_session_is_told_once_and_does_not_stop_it(
    project: Project, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.0)
    session = project.session()
    with session as client:
        measures = session.live().measures
        monkeypatch.setattr(measures, "workers", lambda: 1 / 0)
        assert until(lambda: "figures and alerts of this session stopped" in caplog.text)
        assert client.submit(len, "abc", tag="demeter").result() == 3
    assert caplog.text.count("ZeroDivisionError") == 1
    assert project.ended() == ("ok", "")


@pytest.mark.usefixtures("world")
def test_a_live_file_that_cannot_be_written_is_told_once_and_does_not_stop_it(
    project: Project, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.0)
    session = project.session()
    with session as client:
        session.folder.live_file.unlink(missing_ok=True)
        session.folder.live_file.mkdir()  # a file cannot take its place
        assert until(lambda: "live.json cannot be written" in caplog.text)
        assert client.submit(len, "abc", tag="demeter").result() == 3
        session.folder.live_file.rmdir()
        assert until(lambda: session.folder.live().get("workers")), "it goes on as soon as it can"
    assert caplog.text.count("cannot be written") == 1


@pytest.mark.usefixtures("world")
def test_a_clock_that_is_set_back_does_not_hold_up_alerts(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.0)
    looks: list[float] = []
    session = project.session()
    with session:
        shown = session.live().live
        assert shown is not None
        monkeypatch.setattr(live, "time", SimpleNamespace(time=lambda: 0.0, monotonic=time.monotonic))
        monkeypatch.setattr(shown.alerting, "look", lambda samples, now: looks.append(now))
        assert until(lambda: len(looks) > 1)
    assert looks == sorted(looks)
    assert looks[0] > 1e9
