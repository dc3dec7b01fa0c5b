"""How far tasks over axes are, by axis, from the journal alone."""

from __future__ import annotations

from typing import Any

from scalable.observe.fan_out import by_value, in_words
from scalable.observe.liveness import RunState
from scalable.observe.report import current, report_of
from scalable.observe.view import RunView

AXES = {"task": "sim", "axes": {"scenario": ["low", "high"], "year": [2025, 2026, 2027]}, "jobs": 6}


def seen(*records: tuple[str, dict[str, Any]]) -> RunView:
    return RunView.of({"t": float(number), "kind": kind, **facts} for number, (kind, facts) in enumerate(records))


def ended(job: str, state: str = "finished", **facts: Any) -> list[tuple[str, dict[str, Any]]]:
    of = {"run": job, "attempt": 1, "worker": "w-0", "tag": "w"}
    outcome = "finished" if state == "finished" else "raised"
    return [
        ("attempt-started", of),
        ("attempt-ended", {**of, "outcome": outcome, "seconds": 1.0, **facts}),
        ("run-ended", {"run": job, "state": state, "reason": ""}),
    ]


def test_jobs_are_counted_in_all_and_by_the_values_of_each_axis() -> None:
    view = seen(
        ("fan-out", AXES),
        *ended("sim[scenario=low,year=2025]", recalled=True),
        *ended("sim[scenario=low,year=2026]"),
        *ended("sim[scenario=low,year=2027]"),
        *ended("sim[scenario=high,year=2026]", "failed"),
        ("attempt-started", {"run": "sim[scenario=high,year=2025]", "attempt": 1, "worker": "w-0", "tag": "w"}),
    )
    status = current(view, RunState.RUNNING, 20.0)["fan_outs"]["sim"]
    counts = {name: status[name] for name in ("jobs", "done", "failed", "running", "waiting", "recalled")}
    assert counts == {"jobs": 6, "done": 3, "failed": 1, "running": 1, "waiting": 1, "recalled": 1}
    assert status["axes"]["scenario"] == {
        "low": {"jobs": 3, "done": 3, "failed": 0}, "high": {"jobs": 3, "done": 0, "failed": 1}
    }  # fmt: skip
    assert status["failed_at"] == ["scenario=high,year=2026"]
    line = in_words(status, over=False)
    assert line == "3 of 6 done (1 from the cache), 1 failed (scenario=high,year=2026), 1 running, 1 waiting"
    assert dict(by_value(status)) == {
        "scenario": "high 0 of 3; 1 value complete", "year": "2025 1 of 2, 2026 1 of 2, 2027 1 of 2"
    }  # fmt: skip


def test_a_report_tells_what_was_never_started() -> None:
    view = seen(("fan-out", AXES), *ended("sim[scenario=low,year=2025]", "failed"), ("ended", {"status": "failed"}))
    report = report_of(view, RunState.FAILED, 20.0)
    assert "5 not started" in in_words(report["fan_outs"]["sim"], over=True)
    assert report["tasks"]["w"]["recalled"] == 0


def test_what_came_from_the_cache_says_nothing_about_how_long_a_task_takes() -> None:
    view = seen(
        ("fan-out", AXES),
        *ended("sim[scenario=low,year=2025]", recalled=True, peak=10),
        *ended("sim[scenario=low,year=2026]", peak=30),
    )
    assert view.work["w"].seconds.count == 1 and view.work["w"].recalled == 1
    assert list(view.run_seconds) == ["sim"] and view.run_peaks == {"sim": 30}


def test_a_task_that_is_run_again_is_told_by_its_latest_jobs() -> None:
    name = "sim[scenario=low,year=2025]"
    view = seen(("fan-out", AXES), *ended(name), ("fan-out", {**AXES, "number": 1}), *ended(f"{name}#2", "failed"))
    status = current(view, RunState.RUNNING, 20.0)["fan_outs"]["sim"]
    assert (status["done"], status["failed"]) == (0, 1)


def test_records_that_make_no_sense_are_passed_over() -> None:
    nonsense: list[Any] = [None, [], {"a": 5}, {"a": []}, {"a": list(range(1000)), "b": list(range(1000))}]
    view = seen(*(("fan-out", {"task": "t", "axes": axes}) for axes in nonsense))
    assert view.fan_outs == {}
