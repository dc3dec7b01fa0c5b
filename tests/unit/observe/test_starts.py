"""The parts of a session's start and end are learned apart, each without what belongs to another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalable.observe.history import learn
from scalable.observe.starts import start_times
from scalable.observe.view import RunView
from scalable.planning.history import History, Start
from scalable.planning.simulation.durations import SessionTimes
from tests.helpers.observe.builders import (
    Record,
    attempt,
    attempt_ended,
    closed,
    ended,
    joined,
    lost,
    record,
    run_started,
    started,
    summed,
    sweep_started,
    task,
    unit,
)
from tests.helpers.observe.history import understood
from tests.helpers.observe.tariffs import machine, placed, tariff


def gauge(at: float) -> Record:
    return record("gauge", at, workers={}, tasks={}, cost=None)


def a_session(*records: Record, provider: str = "kubernetes", run: str = "run-1", begins: float = 33) -> RunView:
    """Its first job begins after 33 s and its second is handed over in half a second.

    It looks at its workers from 2 s on, begins to close at 80 s, and is over at 83 s.
    """
    first, last = run_started(run, provider=provider), [gauge(80), closed("w1", 82), ended(83)]
    second = [attempt("b", at=60), *unit("b", 9.5, at=70)]
    return summed(first, tariff(), gauge(2), *records, *unit("a", 27, at=begins + 27), *second, *last)


WAITED = (sweep_started(at=3), started("w1", 6), machine(since=7, up=27), placed("w1"), joined("w1", 31))


def test_the_parts_of_a_start_and_of_an_end_are_learned_apart(tmp_path: Path) -> None:
    learn(tmp_path, a_session(*WAITED))
    (found,) = understood(tmp_path).starts["kubernetes"]
    assert found.node_s == pytest.approx({"compute": 21})
    assert (found.ask_s, found.join_s, found.hand_s, found.close_s) == pytest.approx((6, 6, 0.5, 3))


def test_a_worker_that_takes_the_place_of_a_lost_one_finds_its_node_there() -> None:
    """Of the lost one nothing is known but when it was connected: its only job did not end by itself."""
    first = (run_started("run-1", provider="kubernetes"), tariff(), *WAITED, lost("w1", 40))
    second = (started("w2", 41), placed("w2"), joined("w2", 43), attempt_ended("a", at=50, worker="w2", seconds=6))
    found = start_times(summed(*first, *second))
    assert (found["join_s"], found["warm_s"]) == pytest.approx((31 - 27, 44 - 41))
    assert found["node_s"] == pytest.approx({"compute": 21})


def test_a_worker_that_waits_for_work_was_ready_when_it_was_connected() -> None:
    assert start_times(a_session(*WAITED, begins=50))["join_s"] == pytest.approx(31 - 27)


@pytest.mark.parametrize("up", [-3600, 6.9])
def test_a_worker_that_found_its_node_there_says_nothing_of_how_long_nodes_take(up: float) -> None:
    """Where nodes may not be read, one is known from when the first pod on it started."""
    found = start_times(
        a_session(
            sweep_started(at=3), started("w1", 6), machine(since=6, up=up), placed("w1"), joined("w1", 9), begins=9
        )
    )
    assert "node_s" not in found and "join_s" not in found
    assert found["warm_s"] == pytest.approx(3)


def test_where_nothing_is_known_of_nodes_a_worker_takes_from_being_asked_for_until_it_is_connected() -> None:
    found = start_times(a_session(sweep_started(at=3), started("w1", 6), joined("w1", 30), provider="slurm"))
    assert found["warm_s"] == pytest.approx(27), "its time in the queue is part of it"


def test_the_median_of_several_workers_counts() -> None:
    """They take 6, 8 and 35 s on their nodes."""
    others = [
        each
        for name, ready in (("w2", 35), ("w3", 62))
        for each in (
            started(name, 6), placed(name), joined(name, ready - 1),
            attempt_ended(f"job of {name}", at=ready + 5, worker=name, seconds=5),
        )
    ]  # fmt: skip
    assert start_times(a_session(*WAITED, *others))["join_s"] == pytest.approx(8)


def test_a_session_that_waited_for_its_sweep_does_not_count_that_time() -> None:
    """It was ready after 2 s, somebody asked for a sweep at 62 s, and workers were asked for a second later."""
    records = (gauge(2), sweep_started(at=62), started("w1", 63), joined("w1", 66), *unit("b", 4.0, at=70))
    found = start_times(summed(run_started("run-1", provider="kubernetes"), *records))
    assert found == {"ask_s": pytest.approx(3), "warm_s": pytest.approx(3)}


def test_workers_that_were_asked_for_before_the_sweep_came_with_the_session() -> None:
    records = (gauge(2), started("w1", 1), joined("w1", 5), sweep_started(at=60), *unit("a", 4.0, at=65))
    found = start_times(summed(run_started("run-1", provider="slurm"), *records))
    assert found == {"ask_s": pytest.approx(1), "warm_s": pytest.approx(4)}


def test_without_a_sweep_or_without_its_units_nothing_is_learned(tmp_path: Path) -> None:
    learn(tmp_path, summed(run_started("run-1"), started("w1"), joined("w1"), task("a")))
    learn(tmp_path, summed(run_started("run-2"), started("w1"), joined("w1"), sweep_started()))
    assert understood(tmp_path).starts == {}


def test_the_latest_sessions_are_kept_and_what_earlier_versions_wrote_stays(tmp_path: Path) -> None:
    before = {"startups": {"kubernetes": [220.0]}, "starts": {"slurm": [{"ask_s": 1.0}]}}
    (tmp_path / "history.json").write_text(json.dumps(before), encoding="utf-8")
    for number in range(25):
        learn(tmp_path, a_session(*WAITED, run=f"run-{number}"))
    found = understood(tmp_path)
    assert len(found.starts["kubernetes"]) == 20
    assert found.starts["slurm"] == (Start(1.0),)
    assert found.startups == {"kubernetes": (220.0,)}


def test_a_history_of_an_earlier_version_says_how_long_the_whole_start_took() -> None:
    old = History.from_dict({"startups": {"kubernetes": [200, 220, 400]}})
    times = old.session_times("kubernetes", 180.0)
    assert times == SessionTimes(join_s=40.0, warm_s=40.0)
    assert old.node_s("kubernetes", "compute") is None


def test_what_was_measured_in_parts_replaces_what_was_measured_in_one() -> None:
    parts = [{"ask_s": 5, "join_s": 3, "node_s": {"compute": 23}}, {"ask_s": 7, "join_s": 4, "hand_s": 1, "close_s": 2}]
    found = History.from_dict({"startups": {"kubernetes": [220]}, "starts": {"kubernetes": parts}})
    times = found.session_times("kubernetes", 180.0)
    assert times == SessionTimes(ask_s=6.0, join_s=3.5, warm_s=3.5, hand_s=1.0, close_s=2.0)
    assert found.node_s("kubernetes", "compute") == 23.0
    assert found.node_s("kubernetes", "other") is None
    assert found.sessions_timed("kubernetes") == 2
