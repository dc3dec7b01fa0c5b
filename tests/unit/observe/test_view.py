"""What a journal amounts to: workers, tasks, memory, money, and the plan beside what came."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalable.observe import RunState, RunView, report_of
from scalable.observe.history import session
from scalable.observe.report import current
from scalable.observe.series import Distribution
from tests.helpers.observe.builders import (
    GIB,
    START,
    Record,
    a_plan,
    attempt,
    attempt_ended,
    closed,
    ended,
    joined,
    lost,
    peaks,
    record,
    removed,
    run_started,
    started,
    summed,
    sweep_started,
    task,
)
from tests.helpers.observe.reports import report


def counts(*records: Record, tag: str = "demeter") -> tuple[int, int, int]:
    workers = report(*records)["workers"][tag]
    return workers["started"], workers["removed"], workers["final"]


def test_workers_are_counted_as_started_removed_and_final() -> None:
    names = [f"demeter-{number}" for number in range(5)]
    told = [*map(started, names), *map(joined, names), removed(names[0]), removed(names[1]), lost(names[2])]
    assert counts(*told) == (5, 3, 2)


def test_workers_that_go_because_the_session_closes_were_there_to_the_end() -> None:
    assert counts(joined("a"), joined("b"), removed("a"), closed("b"), ended()) == (2, 1, 1)


def test_a_worker_that_never_joined_is_requested_and_not_started() -> None:
    told = report(started("a"), joined("a"), started("b"), started("c"), lost("c", cause="cannot start"))
    assert told["workers"]["demeter"] == {
        "started": 1,
        "removed": 0,
        "final": 1,
        "most": 1,
        "requested": 2,
        "refused": 0,
        "lost": {},
    }
    assert told["losses"] == {"cannot start": 1}


def test_lost_workers_are_counted_by_cause_with_the_detail() -> None:
    told = report(
        joined("a"), joined("b"), lost("a", 30, cause="out of memory", detail="8.1 GiB of 8 GiB"), lost("b", 40)
    )
    assert told["workers"]["demeter"]["lost"] == {"out of memory": 1, "worker lost": 1}
    assert told["incidents"][0] == {
        "id": 1,
        "kind": "out of memory",
        "run": None,
        "worker": "a",
        "tag": "demeter",
        "started": START + 30,
        "evidence": {"detail": "8.1 GiB of 8 GiB"},
    }


def test_a_worker_that_comes_back_under_its_name_is_another_one() -> None:
    assert counts(joined("a", 5), lost("a", 20), joined("a", 25), closed("a")) == (2, 1, 1)


def test_being_told_twice_changes_nothing() -> None:
    assert counts(joined("a"), joined("a"), removed("a"), removed("a"), lost("a")) == (1, 1, 0)


def test_a_worker_lost_while_the_session_closes_is_no_loss_of_a_worker() -> None:
    assert counts(joined("a"), closed("a", 99), lost("a", 99.5)) == (1, 0, 1)


def test_workers_of_each_tag_are_counted_by_themselves() -> None:
    told = [joined("a", tag="demeter"), joined("b", tag="stitches"), removed("b", tag="stitches")]
    assert counts(*told) == (1, 0, 1)
    assert counts(*told, tag="stitches") == (1, 1, 0)


def test_refused_workers_are_counted() -> None:
    assert (
        report(record("workers-refused", tag="demeter", count=3, reason="quota"))["workers"]["demeter"]["refused"] == 3
    )


def test_the_timeline_says_how_many_workers_there_were() -> None:
    told = report(joined("a", 5), joined("b", 6), removed("a", 60), closed("b", 99))
    line = [(point["t"] - START, point["workers"]) for point in told["timeline"]]
    assert line == [(5, 1), (6, 2), (60, 1), (99, 0)]
    assert told["workers"]["demeter"]["most"] == 2


def test_a_run_whose_clock_was_set_back_took_no_negative_time() -> None:
    view = summed(run_started(), ended(-3600))
    assert report_of(view, RunState.OK, START)["run"]["duration_s"] == 0
    assert current(view, RunState.OK, START)["elapsed_s"] == 0


def test_a_long_timeline_is_thinned_and_keeps_its_ends() -> None:
    told = report(*(part for n in range(5000) for part in (joined(f"w{n}", n), removed(f"w{n}", n + 0.5))))
    assert len(told["timeline"]) <= 4000
    assert told["timeline"][0]["t"] == START
    assert told["timeline"][-1]["t"] == START + 4999.5


def test_a_long_timeline_keeps_every_kind_of_worker() -> None:
    pairs = (part for n in range(2500) for part in (joined(f"a{n}", n, "one"), joined(f"b{n}", n, "two")))
    line = report(*pairs)["timeline"]
    for tag in ("one", "two"):
        course = [point for point in line if point["tag"] == tag]
        assert len(course) > 1000 and (course[0]["workers"], course[-1]["workers"]) == (1, 2500)


lives = st.lists(
    st.sampled_from(["started", "joined", "removed", "closed", "lost", "pending", "leaving"]), min_size=1, max_size=8
)

MAKERS: dict[str, Callable[[str, float, str], Record]] = {
    "started": started,
    "joined": joined,
    "removed": removed,
    "closed": closed,
    "lost": lost,
    "pending": lambda worker, at, tag: record("worker-pending", at, worker=worker, tag=tag, reason="Priority"),
    "leaving": lambda worker, at, tag: record("worker-leaving", at, worker=worker, tag=tag, reason="walltime"),
}


def told_of(worker: int, steps: Iterable[str]) -> list[Record]:
    tag = ("demeter", "stitches")[worker % 2]
    return [MAKERS[step](f"w{worker}", 10.0 * place, tag) for place, step in enumerate(steps)]


@given(st.lists(lives, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_removed_and_final_are_always_all_that_started_in_whatever_order_workers_are_told_of(
    all_steps: list[list[str]], chance: random.Random
) -> None:
    stories = [told_of(worker, steps) for worker, steps in enumerate(all_steps)]
    one_by_one = [each for story in stories for each in story]
    side_by_side = [each for row in zip_longest(*stories) for each in row if each is not None]
    mixed = interleaved(stories, chance)
    tellings = [report(*records)["workers"] for records in (one_by_one, side_by_side, mixed)]
    for workers in tellings:
        for tag in workers.values():
            assert tag["started"] == tag["removed"] + tag["final"]
            assert sum(tag["lost"].values()) <= tag["removed"]
            assert min(tag["started"], tag["removed"], tag["final"], tag["requested"]) >= 0
    without_most = [{tag: {**each, "most": 0} for tag, each in workers.items()} for workers in tellings]
    assert without_most[0] == without_most[1] == without_most[2]


def interleaved(stories: list[list[Record]], chance: random.Random) -> list[Record]:
    """Each story in its own order, one after another's record by chance."""
    rest = [list(story) for story in stories if story]
    told = []
    while rest:
        story = chance.choice(rest)
        told.append(story.pop(0))
        rest = [each for each in rest if each]
    return told


def test_scaling_decisions_are_counted_and_kept_with_time_and_reason() -> None:
    up = record("scale", 1, direction="up", tag="demeter", count=3, reason="work for 3")
    down = record("scale", 60, direction="down", tag="demeter", count=1, reason="idle")
    scaling = report(up, up, up, down)["scaling"]
    assert (scaling["up"], scaling["down"]) == (3, 1)
    assert scaling["decisions"][-1] == {
        "t": START + 60,
        "direction": "down",
        "tag": "demeter",
        "count": 1,
        "reason": "idle",
    }


def test_very_many_decisions_are_counted_but_not_all_kept() -> None:
    scaling = report(*[record("scale", n, direction="up", tag="x", count=1) for n in range(2000)])["scaling"]
    assert scaling["up"] == 2000
    assert len(scaling["decisions"]) == 500


def test_tasks_are_counted_with_their_times() -> None:
    told = report(task("a", 10, 1), task("b", 10, 2), task("c", 10, 3), task("d", 10, 9, ok=False))["tasks"]["demeter"]
    assert (told["count"], told["failed"]) == (4, 1)
    assert told["seconds"] == {"total": 6.0, "mean": 2.0, "p50": 2.0, "p95": 3.0}


def test_a_task_that_any_worker_may_take_is_untagged() -> None:
    assert report(task("a", tag=None))["tasks"]["(untagged)"]["count"] == 1


def test_the_busy_share_is_work_against_the_time_workers_offered() -> None:
    told = [joined("w1", 0, slots=2), task("a", 10, 30), task("b", 10, 10, ok=False), closed("w1", 100), ended()]
    assert report(*told)["tasks"]["demeter"]["busy_share"] == 0.2


def test_the_busy_share_of_workers_that_are_still_there_counts_to_now() -> None:
    told = [joined("w1", 0), task("a", 0, 25)]
    assert report(*told, state=RunState.RUNNING, now=START + 50)["tasks"]["demeter"]["busy_share"] == 0.5


def test_runs_of_the_engine_count_once_however_many_attempts_they_took() -> None:
    told = report(
        attempt("r1"),
        attempt_ended("r1", "out of memory", seconds=5, peak=9 * GIB, message="9 GiB"),
        record("retry", 21, run="r1", tag="demeter", cause="out of memory"),
        attempt("r1", 2, 30),
        attempt_ended("r1", number=2, at=50, seconds=20, peak=6 * GIB),
        record("run-ended", 50, run="r1", state="finished"),
        record("run-ended", 51, run="r2", state="refused", reason="too large"),
        record("run-ended", 52, run="r3", state="stopped"),
    )
    assert told["tasks"]["demeter"]["count"] == 1
    assert told["tasks"]["demeter"]["seconds"]["mean"] == 20
    assert told["tasks"]["(untagged)"] | {"seconds": None} == {
        "count": 1,
        "failed": 1,
        "stopped": 1,
        "recalled": 0,
        "retries": 0,
        "seconds": None,
        "busy_share": None,
    }
    assert told["losses"] == {"out of memory": 1}
    assert told["retries"] == {"count": 1, "by_cause": {"out of memory": 1}}
    assert told["peaks"]["demeter"]["bytes"] == 9 * GIB


tasks = st.builds(
    task,
    st.uuids().map(str),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
    st.sampled_from(["demeter", "stitches", None]),
    ok=st.booleans(),
    worker=st.sampled_from(["w1", "w2"]),
)

measures = st.builds(peaks, st.sampled_from(["demeter", "stitches"]), a=st.integers(1, 2**50), b=st.integers(1, 2**50))

remarks = st.builds(
    record, st.just("finding"), st.floats(0, 100), code=st.sampled_from("xy"), text=st.just("t"), remedy=st.just("")
)

again = st.builds(record, st.just("retry"), st.floats(0, 9), tag=st.just("demeter"), cause=st.sampled_from(["a", "b"]))


@given(st.lists(st.one_of(tasks, measures, remarks, again), max_size=40), st.randoms(use_true_random=False))
def test_tasks_peaks_retries_and_findings_may_come_in_any_order(records: list[Record], chance: random.Random) -> None:
    shuffled = list(records)
    chance.shuffle(shuffled)
    assert report(*records) == report(*shuffled)


@given(st.lists(st.floats(1e-6, 1e7), min_size=1, max_size=600))
def test_quantiles_of_any_number_of_values_are_off_by_a_hundredth_at_most(values: list[float]) -> None:
    found = Distribution()
    for value in values:
        found.add(value)
    ordered = sorted(values)
    for share, place in ((0.5, -(-len(values) // 2) - 1), (0.95, -(-95 * len(values) // 100) - 1)):
        assert found.quantile(share) == pytest.approx(ordered[place], rel=0.011)
    sample = found.sample(200)
    assert len(sample) == min(200, len(values))
    assert sample == sorted(sample)
    assert found.mean == pytest.approx(sum(values) / len(values), rel=1e-6, abs=1e-6)


def test_a_hundred_thousand_records_are_folded_in_little_memory() -> None:
    view = RunView()
    for number in range(100_000):
        view.take(task(f"inc-{number}", number / 100, 1 + number % 7))
    found = report_of(view, RunState.OK, START)["tasks"]["demeter"]
    assert found["count"] == 100_000
    assert found["seconds"]["p50"] == pytest.approx(4, rel=0.011)
    assert len(view.recent) <= 500
    assert view.work["demeter"].seconds._few is None


def test_failed_tasks_and_runs_are_listed_with_their_errors() -> None:
    refused = record("run-ended", 51, run="r2", state="refused", reason="too large")
    failures = report(task("a", 10, 1), task("b", 10, 2, ok=False), refused)["failures"]
    assert [(one["task"], one["error"]) for one in failures] == [("b", "ValueError: b is bad"), ("r2", "too large")]


def test_the_highest_peak_stands_beside_its_limit_of_the_plan() -> None:
    plan = a_plan(resources_by_tag={"demeter": {"cpus": 2, "memory": "8GiB"}})
    told = report(plan, peaks(a=GIB, b=7 * GIB), peaks("stitches", c=GIB))["peaks"]
    assert told["demeter"] == {"bytes": 7 * GIB, "task": "b", "limit": 8 * GIB, "share": 0.875}
    assert told["stitches"] == {"bytes": GIB, "task": "c", "limit": None, "share": None}


def test_one_lack_of_memory_told_by_the_run_and_by_its_worker_is_one() -> None:
    view = summed(
        joined("w1"),
        attempt_ended("r1", "out of memory", worker="w1"),
        lost("w1", cause="out of memory"),
        lost("w2", cause="out of memory"),
    )
    assert view.out_of_memory == 2


def test_cost_is_what_was_spent_last_and_belongs_to_the_months_it_was_spent_in() -> None:
    month_s = 31 * 86400

    def paid(at: float, amount: float) -> Record:
        return record("cost", at, spent={"amount": amount, "currency": "EUR"})

    view = summed(paid(1, 1.0), paid(2, 1.5), paid(month_s, 4.0))
    assert str(view.spent) == "EUR 4.00"
    assert {month: str(amount) for month, amount in view.spent_by_month.items()} == {
        "2026-04": "EUR 1.50",
        "2026-05": "EUR 2.50",
    }


def test_a_finding_repeated_is_one_finding() -> None:
    one = record("finding", 5, code="no-connect", text="w1 does not connect", remedy="write interface: eth0")
    (found,) = report(one, {**one, "t": START + 9})["findings"]
    assert found["times"] == 2
    assert (found["t"], found["last"]) == (START + 5, START + 9)


def test_a_finding_about_the_same_thing_keeps_its_latest_words_until_it_is_withdrawn() -> None:
    def queued(at: float, text: str) -> Record:
        return record("finding", at, code="workers-queued", about="demeter", text=text, remedy="wait")

    told = [queued(5, "queued for 30 s"), queued(605, "queued for 10 min")]
    (found,) = report(*told)["findings"]
    assert (found["text"], found["times"], found["over"]) == ("queued for 10 min", 2, False)
    over = record("finding-over", 700, code="workers-queued", about="demeter", text="queued for 10 min")
    (found,) = report(*told, over)["findings"]
    assert found["over"]
    assert current(summed(*told, over), RunState.RUNNING, START + 701)["findings"] == []
    (found,) = report(*told, over, queued(900, "queued for 30 s"))["findings"]
    assert not found["over"], "it came back"


def test_what_was_planned_stands_beside_what_came() -> None:
    plan = a_plan(
        workers_by_tag={"demeter": 5, "stitches": 1},
        wall_s=60,
        cost={"amount": 0.2, "currency": "EUR"},
        tasks={"demeter": 3},
        peaks={"demeter": 2 * GIB},
    )
    told = report(
        run_started(),
        plan,
        *(joined(name) for name in "abcd"),
        task("t1", 10, 20),
        task("t2", 12, 68),
        peaks(t1=3 * GIB),
        record("retry", 30, tag="demeter", cause="worker lost"),
        record("gauge", 90, cost={"amount": 0.17, "currency": "EUR"}),
        ended(),
    )["plan_vs_actual"]
    assert told == {
        "workers": {"demeter": {"planned": 5, "actual": 4}, "stitches": {"planned": 1, "actual": 0}},
        "startup_s": {"planned": None, "actual": None},
        "wall_s": {"planned": 60.0, "actual": 70.0},
        "cost": {
            "planned": {"amount": 0.2, "currency": "EUR"},
            "actual": {"amount": 0.17, "currency": "EUR"},
        },
        "hours": {"planned": None, "actual": None},
        "node_hours": {"planned": None, "actual": None},
        "tasks": {"demeter": {"planned": 3, "actual": 2}},
        "peaks": {"demeter": {"planned": 2 * GIB, "actual": 3 * GIB}},
        "retries": {"planned": 0, "actual": 1},
        "there": 0,
    }


def test_without_a_plan_there_is_nothing_to_compare() -> None:
    assert report(run_started(), ended())["plan_vs_actual"] is None


fields = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(["demeter", "up"])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)

NAMES = (
    *("run_id", "worker", "tag", "reason", "cause", "detail", "count", "slots", "took_s", "status", "start", "stop"),
    *("peaks", "run", "outcome", "seconds", "peak", "state", "spent", "per_hour", "cost", "workers", "tasks", "alert"),
    *("text", "code", "remedy", "direction", "workers_by_tag", "resources_by_tag", "wall_s", "pid", "host", "job"),
    *(
        "machine",
        "pool",
        "price",
        "since",
        "until",
        "tail_s",
        "part",
        "currency",
        "assumed",
        "budget",
        "key",
        "attempt",
    ),
)

KINDS = (
    *("run-started", "plan", "scale", "worker-started", "worker-pending", "worker-joined", "worker-leaving"),
    *("worker-removed", "worker-lost", "workers-refused", "task", "peaks", "attempt-started", "attempt-ended"),
    *("run-ended", "retry", "gauge", "cost", "alert", "finding", "ended", "something-new"),
    *("tariff", "machine", "placed", "rows"),
)

anything = st.builds(
    lambda moment, kind, rest: {"t": moment, "kind": kind, **rest},
    st.floats(-1e11, 1e11),
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(NAMES), fields, max_size=5),
)


@given(st.lists(anything, max_size=20))
def test_records_that_make_no_sense_never_stop_a_report(records: list[Record]) -> None:
    view = RunView.of(records)
    for state in RunState:
        report_of(view, state, START)
        current(view, state, START)


def test_the_status_says_who_is_here_who_is_awaited_and_why() -> None:
    told = summed(
        run_started(),
        *(started(name) for name in "abc"),
        joined("a"),
        record("worker-pending", 6, worker="b", tag="demeter", reason="Priority"),
        record(
            "gauge", 8, workers={"demeter": {"live": 1, "busy": 1}}, tasks={"demeter": {"waiting": 7, "running": 1}}
        ),
    )
    now = current(told, RunState.RUNNING, START + 10)
    assert now["workers"]["demeter"] == {
        "live": 1,
        "busy": 1,
        "pending": 2,
        "reasons": {"Priority": 1, "starting": 1},
    }
    assert now["tasks"]["demeter"] == {"waiting": 7, "running": 1, "done": 0, "failed": 0}
    assert now["elapsed_s"] == 10
    assert now["left_s"] is None


def test_the_time_left_follows_the_rate_of_the_last_minutes() -> None:
    ends = [task(f"t{n}", 2.0 * n, 2.0) for n in range(50)]
    waiting = record("gauge", 100, tasks={"demeter": {"waiting": 19, "running": 1}})
    now = current(summed(run_started(), *ends, waiting), RunState.RUNNING, START + 102)
    assert now["rate_per_min"] == 30
    assert now["left_s"] == 40


def test_work_for_any_worker_has_one_name_in_counts_and_gauges() -> None:
    gauge = record("gauge", 50, tasks={"": {"waiting": 2, "running": 1, "done": 1}})
    now = current(summed(run_started(), task("a", tag=None), gauge), RunState.RUNNING, START + 60)
    assert now["tasks"] == {"(untagged)": {"waiting": 2, "running": 1, "done": 1, "failed": 0}}


def test_attempts_under_way_are_running_without_a_gauge() -> None:
    now = current(summed(run_started(), joined("w1"), attempt("r1"), attempt("r2")), RunState.RUNNING, START + 20)
    assert now["tasks"]["demeter"]["running"] == 2
    assert now["workers"]["demeter"]["busy"] == 1


def test_a_loss_of_a_run_without_a_readable_name_is_reported() -> None:
    lost = record("worker-lost", 8, worker="a", tag="demeter", run=[None])
    [told] = report(joined("a"), lost)["incidents"]
    assert (told["run"], told["worker"]) == (None, "a")


def test_what_began_after_the_gauge_waits_no_longer() -> None:
    gauge = record("gauge", 6, tasks={"demeter": {"waiting": 6, "running": 0, "done": 0}})
    now = current(
        summed(run_started(), joined("w1"), gauge, attempt("r1"), attempt("r2")), RunState.RUNNING, START + 20
    )
    assert now["tasks"]["demeter"] == {"waiting": 4, "running": 2, "done": 0, "failed": 0}


def test_work_whose_workers_are_gone_waits_again() -> None:
    gauge = record("gauge", 6, tasks={"demeter": {"waiting": 3, "running": 2, "done": 0}})
    there = summed(run_started(), joined("w1"), joined("w2"), removed("w1", 8), gauge)
    assert current(there, RunState.RUNNING, START + 20)["tasks"]["demeter"]["running"] == 2
    gone = summed(run_started(), joined("w1"), joined("w2"), removed("w1", 8), removed("w2", 9), gauge)
    assert current(gone, RunState.RUNNING, START + 20)["tasks"]["demeter"] == {
        "waiting": 5, "running": 0, "done": 0, "failed": 0
    }  # fmt: skip


def test_nobody_is_busy_in_a_run_that_is_over() -> None:
    told = summed(run_started(), joined("a"), record("gauge", 5, tasks={"demeter": {"waiting": 3, "running": 1}}))
    now = current(told, RunState.GONE, START + 10**6)
    assert now["workers"] == {}
    assert now["tasks"]["demeter"]["running"] == 0
    assert now["elapsed_s"] == 5


@pytest.mark.parametrize("rows_first", [False, True])
@pytest.mark.parametrize("state", ["finished", "failed"])
def test_a_job_whose_rows_failed_is_one_failure_in_whatever_order_it_is_told(rows_first: bool, state: str) -> None:
    error = "ValueError: no such model"
    ended = {"t": 3.0, "kind": "run-ended", "run": "A 1", "state": state, "reason": error}
    rows = {"t": 4.0, "kind": "rows", "sweep": "depth", "run": "A 1", "tag": "standard", "count": 2, "failed": 1}
    started = {"t": 1.0, "kind": "attempt-started", "run": "A 1", "worker": "standard-0", "tag": "standard"}
    told = [started, *([rows, ended] if rows_first else [ended, rows])]
    told[told.index(rows)] = {**rows, "error": error}
    view = RunView.of(told)
    assert (view.failed, view.work["standard"].finished, view.jobs["A 1"]) == (1, 0, "failed")
    assert [(failure["task"], failure["error"]) for failure in view.failures] == [("A 1", error)]
    assert session(view)["failures"] == 1


@pytest.mark.parametrize("recorded", [False, True])
def test_workers_that_are_lost_with_their_runs_are_counted_once(recorded: bool) -> None:
    names = ["a", "b", "c"]
    losses = [lost(name, 50) for name in names]
    attempts = [attempt_ended(f"run {name}", "worker lost", at=50, worker=name) for name in names]
    about = {"incident": "worker lost", "tag": "demeter", "text": "gone"}
    incidents = [
        record("incident", 50, id=number, run=f"run {name}", worker=name, **about)
        for number, name in enumerate(names, 1)
    ]
    told = [event for pair in zip(losses, attempts, strict=True) for event in pair]
    found = report(*map(joined, names), *told, *(incidents if recorded else []))
    assert found["losses"] == {"worker lost": 3}
    assert len(found["incidents"]) == 3
    other = attempt_ended("run d", "raised", at=55, worker="a")
    assert report(*map(joined, names), *told, other)["losses"] == {"raised": 1, "worker lost": 3}


def test_a_job_whose_rows_fail_after_it_was_counted_as_done_is_counted_once() -> None:
    gauge = record("gauge", 3.5, tasks={"standard": {"waiting": 0, "running": 0, "done": 2, "failed": 0}})
    jobs = [record("run-ended", 3, run=name, state="finished") for name in ("A 1", "A 2")]
    began = [attempt(name, tag="standard") for name in ("A 1", "A 2")]
    rows = record("rows", 4, sweep="depth", run="A 1", tag="standard", count=2, failed=2, error="no")
    tasks = current(summed(run_started(), *began, *jobs, gauge, rows), RunState.RUNNING, START + 10)["tasks"]
    assert tasks["standard"] == {"waiting": 0, "running": 0, "done": 1, "failed": 1}


def test_a_traced_job_keeps_the_start_that_its_sweep_had_then() -> None:
    """A session may run a sweep several times, each for another asset."""
    axes = {"variant": ["off"], "asset": ["UNI"], "fold": ["0", "1"], "cost_bps": ["5"]}
    records = [
        sweep_started(axes=axes, code="first"),
        record("sweep-units", 9, sweep="calibration", unit_cells={"early": "1", "other": "0"}),
        sweep_started(at=10, axes={**axes, "asset": ["LDO"]}, code="second"),
        record("sweep-units", 11, sweep="calibration", unit_cells={"late": "0"}),
    ]
    view = RunView.of(records, traced=("early", "late", "unknown"))
    assert {job: origin.begun["code"] for job, origin in view.origins.items()} == {"early": "first", "late": "second"}
    assert view.origins["early"].rows == [{"variant": "off", "asset": "UNI", "fold": "1", "cost_bps": "5"}]
    assert view.origins["late"].rows == [{"variant": "off", "asset": "LDO", "fold": "0", "cost_bps": "5"}]
