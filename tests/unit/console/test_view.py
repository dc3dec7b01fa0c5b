"""What the page shows follows from the journal alone, record by record, however large the run is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from scalable.observe.liveness import SILENT_S, LastSign, RunState
from scalable.observe.report import current
from scalable.observe.series import MOST_POINTS
from scalable.observe.view import RunView
from scalable.show.console.feed import Feed
from scalable.show.console.sections import sections, use_memory
from tests.helpers.console.feeds import a_large_run, a_unit
from tests.helpers.console.sweeps import AXES, a_sweep, rows
from tests.helpers.observe.builders import (
    GIB,
    START,
    Record,
    a_plan,
    a_run,
    attempt,
    attempt_ended,
    ended,
    joined,
    lost,
    record,
    removed,
    run_started,
    started,
    sweep_started,
    task,
    write,
)


def viewed(*records: Record) -> RunView:
    return RunView.of(records)


def shown(view: RunView, state: RunState = RunState.RUNNING, at: float = 100.0, **live: Any) -> dict[str, Any]:
    use_memory(view, live)
    return sections(view, state, START + at, live)


def letters(view: RunView, *, over: bool = False) -> str:
    (grid,) = view.grids.to_list(over=over)
    return str(grid["cells"])


def test_a_grid_fills_in_as_units_run_and_their_rows_come() -> None:
    view = viewed(*a_sweep(cells_there="6-7"))
    assert letters(view) == "......tt"
    view.take(attempt("A fold 0"))
    assert letters(view) == "rr..rrtt"
    view.take(attempt_ended("A fold 0"))
    assert letters(view) == "rr..rrtt", "its rows come in a moment"
    view.take(rows("A fold 0", "0-1,4-5", failed="5"))
    assert letters(view) == "dd..dftt"
    view.take(record("sweep-ended", 30, sweep="trial", status="failed", reason="", expected=8))
    assert letters(view) == "ddmmdftt"


def test_an_attempt_that_was_lost_makes_its_rows_wait_again() -> None:
    view = viewed(*a_sweep(), attempt("A fold 0"), attempt_ended("A fold 0", "out of memory"))
    assert letters(view) == "........"
    view.take(attempt("A fold 0", 2))
    assert letters(view) == "rr..rr.."


def test_only_the_rows_that_are_meant_are_part_of_the_grid() -> None:
    assert letters(viewed(*a_sweep(cells="2-3,6-7", failed_cells="7"))) == "--..--.f"


def test_only_what_changed_is_told_after_the_whole(tmp_path: Path) -> None:
    folder = a_run(tmp_path, *a_sweep()[1:], end=False)
    feed = Feed(folder)

    def looked() -> tuple[bool, list[dict[str, Any]]]:
        news = feed.look()
        assert news is not None
        return news.reshaped, news.cells

    assert looked() == (True, [])
    write(folder, [attempt("A fold 0"), rows("A fold 0", "0-1,4-5")])
    assert looked() == (False, [{"sweep": "trial", "changed": [[0, "d"], [1, "d"], [4, "d"], [5, "d"]]}])
    assert looked() == (False, [])


def test_what_a_run_that_is_gone_did_not_compute_is_missing() -> None:
    view = viewed(*a_sweep(), attempt("A fold 0"))
    told = shown(view, RunState.GONE)
    assert letters(view, over=True) == "mmmmmmmm" and told["sweeps"][0]["status"] == "interrupted"
    assert told["workers"] == [] and told["run"]["state"] == "interrupted (the process is gone)"


def test_a_journal_of_an_earlier_version_shows_everything_but_the_grid_and_says_so() -> None:
    view = viewed(run_started(), sweep_started("trial"), record("rows", 20, sweep="trial", run="u", count=9, failed=0))
    (grid,) = view.grids.to_list()
    assert grid["axes"] is None and grid["cells"] == "" and "earlier version" in grid["why"]
    (sweep,) = shown(view)["sweeps"]
    assert (sweep["name"], sweep["expected"], sweep["rows"], sweep["units_done"]) == ("trial", 225, 9, 1)


def test_fields_that_make_no_sense_are_passed_over() -> None:
    odd: list[dict[str, Any]] = [
        {"axes": {"variant": "off", "asset": 3}}, {"axes": AXES, "cells_there": "x,5-,-3,9-1,1e3,7-99999999"},
        {"axes": {**AXES, "fold": ["0"] * 10**6}},
    ]  # fmt: skip
    told = [viewed(*a_sweep(**one)).grids.to_list()[0]["cells"] for one in odd]
    assert told == ["", ".....t.t", ""]
    view = viewed(run_started(), record("sweep-units", sweep=3, unit_cells=[1]), record("rows", sweep="?", cells=7))
    view.take(record("alert", alert=None, state="firing", labels="x"))
    view.take(record("scale", direction=None, count="many"))
    shown(view, workers=[3], alerts=[None])


def test_a_sweep_that_is_run_again_in_a_session_counts_anew() -> None:
    first = (rows("A fold 0", "0-1,4-5", failed="5"), rows("B fold 0", "2-3,6-7"))
    over = record("sweep-ended", 30, sweep="trial", status="incomplete", reason="1 row failed")
    view = viewed(*a_sweep(), *first, over, *a_sweep(there=7, cells_there="0-4,6-7")[1:])
    (sweep,) = shown(view)["sweeps"]
    assert (sweep["there"], sweep["rows"], sweep["failed"], sweep["units_done"]) == (7, 0, 0, 0)
    assert (sweep["status"], sweep["reason"]) == ("running", "")
    view.take(rows("A fold 0", "5", count=1))
    (sweep,) = shown(view)["sweeps"]
    assert sweep["there"] + sweep["rows"] == sweep["expected"] == 8


def test_the_time_left_of_a_sweep_follows_from_the_rows_that_came_lately() -> None:
    view = viewed(*a_sweep())
    assert shown(view)["sweeps"][0]["left_s"] is None
    view.take(rows("A fold 0", "0-1,4-5", at=90.0))
    told = shown(view, at=100.0)
    assert told["sweeps"][0]["left_s"] == 92.0, "four rows came in the 92 s since the sweep began"
    assert told["run"]["left_s"] == 92.0, "the run is over when its sweeps are"


@pytest.mark.parametrize(
    ("sign", "live"),
    [
        (LastSign(at=None, silent_s=1.0, stopped=4711), {}),
        (LastSign(at=None, silent_s=SILENT_S + 1, stopped=None), {}),
        (LastSign(at=None, silent_s=1.0, stopped=None), {"paused": "no money is left"}),
    ],
    ids=["stopped", "silent", "paused"],
)
def test_no_time_left_is_told_of_a_run_that_does_not_go_on(sign: LastSign, live: dict[str, Any]) -> None:
    view = viewed(*a_sweep(), rows("A fold 0", "0-1,4-5", at=90.0))
    told = sections(view, RunState.RUNNING, START + 100.0, live, sign=sign)
    assert (told["sweeps"][0]["left_s"], told["run"]["left_s"]) == (None, None)
    assert told["run"]["stopped"] == sign.stopped


def test_the_time_left_is_right_where_rows_come_faster_than_they_are_remembered() -> None:
    start = sweep_started("trial", expected=20_000, units=20_000)
    view = viewed(run_started(), start)
    for number in range(10_000):
        view.take(rows(f"unit {number}", "", at=10 + number / 100, count=1))
    left = shown(view, at=110.0)["sweeps"][0]["left_s"]
    assert 95 < left < 105, "100 rows came every second, and 10,000 are left"


def test_decisions_say_how_many_workers_there_were_and_shall_be() -> None:
    up = record("scale", 1, direction="up", tag="demeter", count=2, reason="12 runs wait")
    down = record("scale", 50, direction="down", tag="demeter", count=1, reason="idle")
    view = viewed(run_started(), up, started("w1"), started("w2"), joined("w1"), joined("w2"), down)
    leaving = record("worker-leaving", 51, worker="w1", tag="demeter", reason="idle")
    for one in (leaving, removed("w1"), lost("w2"), record("scale", 61, direction="up", tag="demeter", count=3)):
        view.take(one)
    told = [(one["direction"], one["from"], one["to"], one["reason"]) for one in shown(view)["decisions"]]
    assert told == [("up", 0, 2, "12 runs wait"), ("down", 2, 1, "idle"), ("up", 0, 3, "")]


def test_workers_are_those_of_the_session_itself_else_those_of_the_journal() -> None:
    plan = a_plan(resources_by_tag={"demeter": {"memory": "2GiB"}})
    waits = record("worker-pending", 2, worker="w2", tag="demeter", reason="the queue is full")
    view = viewed(run_started(), plan, started("w1"), joined("w1"), started("w2"), waits, attempt("first"))
    view.take(record("progress", 11, run="first", worker="w1", tag="demeter", step=3, of=30, note="trial", memory=GIB))
    one, two = shown(view)["workers"]
    assert (one["worker"], one["state"], one["memory"], one["memory_limit"]) == ("w1", "busy", GIB, 2 * GIB)
    assert one["runs"] == [{"run": "first", "note": "trial", "step": 3, "of": 30, "seconds": None, "memory": GIB}]
    assert (two["state"], two["why"]) == ("starting", "the queue is full")
    (told,) = shown(view, workers=[{"worker": "w9", "tag": "demeter", "state": "idle", "secret": 1}])["workers"]
    assert told["worker"] == "w9" and told["runs"] == [] and "secret" not in told


def test_the_memory_that_workers_use_now_counts_to_the_next_point_of_the_series() -> None:
    view = viewed(run_started())
    shown(view, workers=[{"worker": "w1", "memory": GIB, "memory_limit": 4 * GIB}, {"worker": "w2", "memory": None}])
    view.take(record("gauge", 20, workers={}, tasks={}))
    assert shown(view)["series"]["memory_share"] == [0.25]


def test_a_pause_is_what_the_session_says_else_what_the_journal_says() -> None:
    paused = record("operator", 20, ask="pause", target="", by="me@here (console)", runs=[])
    view = viewed(run_started(), paused)
    assert shown(view)["run"]["paused"] == "paused by me@here (console)"
    assert shown(view, paused="over budget")["run"]["paused"] == "over budget"
    assert shown(view, RunState.OK)["run"]["paused"] == ""
    view.take(record("operator", 30, ask="resume", target="", by="me", runs=[]))
    assert shown(view)["run"]["paused"] == ""


def test_series_stay_bounded_and_keep_both_ends() -> None:
    view = viewed(run_started(), a_plan(resources_by_tag={"demeter": {"memory": 2 * GIB}}))
    for number in range(5000):
        if number % 10 == 0:
            view.take(record("progress", number, run="r", worker="w", tag="demeter", step=1, memory=GIB))
        if number == 1:
            view.take(record("progress", number, run="r", worker="w", tag="demeter", step=1, memory=int(1.9 * GIB)))
        workers, tasks = {"demeter": {"live": number}}, {"demeter": {"waiting": 5, "running": 1}}
        view.take(record("gauge", number, workers=workers, tasks=tasks, cost={"amount": 1.5, "currency": "USD"}))
    series = shown(view)["series"]
    assert MOST_POINTS / 2 < len(series["t"]) <= MOST_POINTS
    assert all(len(series[name]) == len(series["t"]) for name in ("waiting", "running", "memory_share", "cost"))
    assert len(series["live"]["demeter"]) == len(series["t"]) and series["live"]["demeter"][-1] == 4999
    assert series["t"][0] == START and series["t"] == sorted(series["t"]) and 0.5 in series["memory_share"]
    assert max(share for share in series["memory_share"] if share) == 0.95, "a short peak is kept"


def test_alerts_that_hold_are_told_apart_from_those_that_passed() -> None:
    def alert(state: str, at: float, worker: str) -> Record:
        labels = {"worker": worker}
        return record("alert", at, alert="WorkerMemory", state=state, severity="warning", text="82 %", labels=labels)

    once = record("alert", 5, alert="tag-too-small", text="w1 is too small", run="first")
    view = viewed(
        run_started(), once, alert("firing", 10, "w1"), alert("firing", 11, "w2"), alert("resolved", 20, "w1")
    )
    trouble = shown(view)["trouble"]
    assert [(one["labels"], one["since"]) for one in trouble["alerts"]] == [({"worker": "w2"}, START + 11)]
    assert len(trouble["alerts_past"]) == 4 and trouble["alerts_past"][0]["text"] == "w1 is too small"
    assert shown(view, alerts=[])["trouble"]["alerts"] == [] == shown(view, RunState.OK)["trouble"]["alerts"]


def test_incidents_are_those_that_have_a_file() -> None:
    told = record("incident", 20, id=3, incident="stuck", run="first", worker="w1", tag="demeter", text="lock")
    view = viewed(run_started(), told, started("w2"), joined("w2"), lost("w2", cause="preempted"))
    view.take(record("retry", 30, run="first", tag="demeter", cause="stuck"))
    trouble = shown(view)["trouble"]
    assert [(one["id"], one["kind"], one["text"]) for one in trouble["incidents"]] == [(3, "stuck", "lock")]
    assert trouble["incident_count"] == current(view, RunState.RUNNING, START + 40)["incidents"] == 1
    assert trouble["retries"]["count"] == 1 and trouble["retries"]["by_cause"] == {"stuck": 1}
    assert trouble["retries"]["latest"] == [{"t": START + 30, "run": "first", "tag": "demeter", "cause": "stuck"}]


def test_of_very_many_incidents_the_latest_are_listed_and_all_are_counted() -> None:
    view = viewed(run_started())
    for number in range(1, 601):
        told = {"incident": "stuck", "run": f"run {number}", "worker": "w1", "tag": "demeter", "text": "lock"}
        view.take(record("incident", number, id=number, **told))
    view.take(record("incident", 700, id=1, incident="stuck", run="run 1", outcome="of one that is not remembered"))
    trouble = shown(view)["trouble"]
    assert [one["id"] for one in trouble["incidents"]] == list(range(501, 601))
    assert trouble["incident_count"] == 600


def test_failures_are_counted_also_those_that_are_not_listed() -> None:
    view = viewed(run_started(), *(task(f"t{number}", 10, ok=False) for number in range(60)))
    trouble = shown(view)["trouble"]
    assert (len(trouble["failures"]), trouble["failure_count"]) == (50, 60)


def test_plan_and_cost_are_those_of_the_report() -> None:
    money = {"amount": 3.0, "currency": "USD"}
    spent = record("cost", 50, spent={"amount": 1.0, "currency": "USD"}, per_hour={"amount": 2.0, "currency": "USD"})
    tariff = record("tariff", 0.2, currency="USD", basis="workers", assumed=[], budget={"amount": 5, "currency": "USD"})
    view = viewed(run_started(), a_plan(cost=money, workers_by_tag={"demeter": 2}), tariff, spent, joined("w1"))
    cost, plan = shown(view)["cost"], shown(view)["plan"]
    assert cost["planned"]["amount"] == 3.0 and cost["budget"]["amount"] == 5.0 and cost["budget_left"]["amount"] == 4.0
    assert plan["workers"]["demeter"] == {"planned": 2, "actual": 1} and plan["cost"]["actual"]["amount"] == 1.0
    view.take(ended())
    assert shown(view, RunState.OK)["plan"]["cost"]["actual"]["amount"] == 0.0, "the bill: no machine was paid"


def test_a_record_that_comes_after_a_run_seemed_to_be_gone_counts_to_its_bill() -> None:
    tariff = record("tariff", 0.2, currency="USD", basis="nodes", assumed=[])
    machine = record("machine", 2, machine="node", pool="spot", price="3600", since=START + 2)
    view = viewed(run_started(), a_plan(workers_by_tag={"demeter": 1}), tariff, machine)
    assert shown(view, RunState.GONE)["plan"]["cost"]["actual"]["amount"] == 0.0
    view.take(ended())
    assert shown(view, RunState.OK)["plan"]["cost"]["actual"]["amount"] == 98.0


def test_an_update_takes_as_many_steps_in_a_large_run_as_in_a_small_one() -> None:
    assert updated(units=4000) < 1.02 * updated(units=1000)


def updated(units: int) -> int:
    """Of a sweep of so many units, one more ends: how many calls it takes to hear of that and to show it."""
    view = viewed(*a_large_run(units, workers=50, assets=units // 100))
    last = units - 1
    calls = 0

    def count(*event: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        for one in a_unit(f"unit {last}", last, "demeter-0", 240.0):
            view.take(one)
        told = shown(view, at=250.0)
    finally:
        sys.setprofile(None)
    assert letters(view)[last] == "d"
    assert len(told["workers"]) == 50 and len(json.dumps(told)) < 100_000
    return calls
