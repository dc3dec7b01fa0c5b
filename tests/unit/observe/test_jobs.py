"""What happened to one run, told from journals as sessions write and leave them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from scalable.observe import RunState, RunView
from scalable.observe.jobs import JobHistory, unfinished
from scalable.observe.view import MOST_EVENTS
from tests.helpers.observe.builders import GIB, START, Record, attempt, attempt_ended, record, task


def history(records: Iterable[Record], job: str) -> JobHistory:
    return JobHistory.of(RunView.of(records, job))


def run_ended(run: str, state: str = "finished", at: float = 30.0, reason: str = "") -> Record:
    return record("run-ended", at, run=run, state=state, reason=reason)


def a_stuck_run() -> list[Record]:
    """Stuck once, found, killed, tried again, then finished; beside it another run."""
    return [
        attempt("uni", at=1),
        attempt("aave", at=2),
        attempt_ended("uni", "stuck", at=301, seconds=300, peak=2 * GIB, message="in cleanlab/filter.py:404"),
        record("incident", 302, id=1, incident="stuck", run="uni", worker="w1", text="fork in cleanlab/filter.py:404"),
        record("alert", 303, alert="retry-used", text="uni is tried again", run="uni"),
        record("retry", 360, run="uni", tag="demeter", cause="stuck"),
        attempt("uni", 2, at=361, worker="w2"),
        attempt_ended("uni", number=2, at=402, seconds=41, worker="w2"),
        run_ended("uni", at=403),
    ]


def test_a_run_is_told_from_its_first_attempt_to_its_end() -> None:
    job = history(a_stuck_run(), "uni")
    assert [one.text for one in job.events] == [
        "attempt 1 started on w1 (demeter)",
        "attempt 1 was lost after 5 min: stuck, peak 2 GiB, in cleanlab/filter.py:404",
        "incident 1: stuck, fork in cleanlab/filter.py:404",
        "uni is tried again",
        "was tried again after: stuck",
        "attempt 2 started on w2 (demeter)",
        "attempt 2 finished after 41 s",
        "finished",
    ]
    assert job.events[0].t == START + 1
    assert (job.state, job.close(RunState.OK)) == ("finished", "finished")


def test_other_runs_are_known_by_name_and_state_only() -> None:
    view = RunView.of(a_stuck_run(), "uni")
    assert view.jobs == {"uni": "finished", "aave": "running"}
    assert unfinished(view) == ["aave"]


def test_a_run_that_a_killed_session_left_says_where_it_was() -> None:
    job = history([attempt("uni", worker="w7")], "uni")
    assert job.close(RunState.GONE) == "the session ended while it ran on w7: interrupted (the process is gone)"
    assert (job.state_in(RunState.GONE), job.state_in(RunState.RUNNING)) == ("not finished", "running")
    assert job.close(RunState.RUNNING) == "running on w7"


def test_a_run_that_waited_for_another_try_says_so() -> None:
    job = history([attempt("uni"), attempt_ended("uni", "worker lost")], "uni")
    assert job.close(RunState.INTERRUPTED) == "the session ended before it was started again: interrupted"


def test_a_failed_run_ends_with_its_reason() -> None:
    job = history([attempt("uni"), run_ended("uni", "failed", reason="ValueError: no data for 2031")], "uni")
    assert job.events[-1].text == "failed: ValueError: no data for 2031"
    assert job.close(RunState.FAILED) == "failed: ValueError: no data for 2031"


def test_what_was_just_said_is_not_said_again_by_an_alert_or_an_outcome() -> None:
    reason = "crashed after 2 attempts"
    job = history(
        [
            attempt("uni"),
            record("incident", 10, id=4, incident="crashed", run="uni", text="SIGSEGV in fit.py:7"),
            run_ended("uni", "failed", reason=reason),
            record("incident", 31, id=4, incident="crashed", run="uni", outcome=f"failed: {reason}"),
            record("alert", 32, alert="failed", run="uni", text=f"uni: {reason}"),
        ],
        "uni",
    )
    assert [one.text for one in job.events][1:] == [
        "incident 4: crashed, SIGSEGV in fit.py:7",
        f"failed: {reason}",
    ]
    assert job.incident == 4


def test_incidents_of_a_guarded_task_are_told_with_its_key() -> None:
    about = record("incident", 3, id=1, incident="stuck", run="uni-9bc785f0", worker="w1", text="in jobs.py:20")
    job = history([about, task("uni", ok=False)], "uni")
    assert [one.kind for one in job.events] == ["incident", "task"]
    assert (job.state, job.incident) == ("failed", 1)
    assert not history([about], "un").known


@pytest.mark.parametrize(
    ("fields", "concerns"),
    [
        ({"ask": "kill", "target": "uni", "runs": ["uni"]}, True),
        ({"ask": "kill", "target": "w1", "runs": ["uni", "aave"]}, True),
        ({"ask": "pause", "target": "", "runs": []}, True),
        ({"ask": "kill", "target": "aave", "runs": ["aave"]}, False),
    ],
)
def test_what_operators_did_is_told_of_the_runs_it_concerned(fields: dict[str, object], concerns: bool) -> None:
    job = history([attempt("uni"), record("operator", 5, by="ann@n1", **fields)], "uni")
    assert [one.kind for one in job.events] == ["attempt-started", *(["operator"] if concerns else [])]
    if concerns:
        assert job.events[-1].text == f"{fields['ask']} {fields['target']}".strip() + ", by ann@n1"


def test_a_plain_task_is_told_by_its_key() -> None:
    job = history([task("inc-1"), task("inc-2", ok=False)], "inc-2")
    assert [one.text for one in job.events] == ["failed on w1: ValueError: inc-2 is bad"]
    assert job.known and job.state == "failed"
    assert "handed to Dask directly" in job.close(RunState.OK)


def test_a_name_that_is_nowhere_is_not_known() -> None:
    job = history(a_stuck_run(), "nobody")
    assert not job.known
    assert not history([], "nobody").known
    assert not history([record("operator", ask="pause", target="", runs=[])], "nobody").known


def test_records_with_nonsense_in_them_do_no_harm() -> None:
    strange: dict[str, Any] = {
        "attempt": None,
        "worker": 7,
        "seconds": "long",
        "peak": [],
        "message": {},
        "outcome": 3,
        "runs": 5,
    }
    kinds = ("attempt-started", "attempt-ended", "retry", "incident", "alert", "run-ended", "operator", "task")
    for kind in kinds:
        history([record(kind, run="uni", target="uni", key="uni", **strange)], "uni").close(RunState.OK)
        history([record(kind, run=["uni"])], "uni")


def test_a_run_that_was_tried_without_end_does_not_fill_the_memory() -> None:
    job = history((attempt("uni", number) for number in range(MOST_EVENTS * 2)), "uni")
    assert len(job.events) == MOST_EVENTS
