"""Short jobs in the modelled world: workers begin what they were given in order, and messages that take time cross."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scalable.engine.events import JobFinished, JobState, StartJob, TakeBack
from scalable.findings import Finding
from scalable.planning.simulation import SimulationOutcome
from scalable.planning.simulation.durations import Fixed
from scalable.planning.simulation.faults import FaultKind
from tests.helpers.simulation.builders import Cluster, a_cluster

SHORT_S = 0.01
MESSAGE_S = 0.01


def a_sweep_of_short_jobs(jobs: int = 400, *, workers: int = 2, seconds: float = SHORT_S) -> Cluster:
    cluster = a_cluster().with_sweep("s", jobs, workers, Fixed(seconds))
    cluster.faults = replace(cluster.faults, latency_s=MESSAGE_S)
    return cluster


def ends(cluster: Cluster) -> dict[str, float]:
    """When the engine heard of each job's end."""
    return {event.job: now for now, event, _ in cluster.seen if isinstance(event, JobFinished)}


def given(cluster: Cluster, kind: type[StartJob] | type[TakeBack]) -> list[tuple[str, str]]:
    """Jobs and the workers they were given to, or taken from, in that order."""
    told = [one for _, _, instructions in cluster.seen for one in instructions]
    return [(one.job, one.worker) for one in told if isinstance(one, kind)]


def complete_in(outcome: SimulationOutcome, jobs: int) -> bool:
    return outcome.complete and outcome.attempts == jobs and outcome.retries == 0


def test_workers_with_short_jobs_do_not_wait_for_messages() -> None:
    cluster = a_sweep_of_short_jobs()
    outcome = cluster.run()
    assert complete_in(outcome, 400)
    alone = 400 / 2 * (SHORT_S + 2 * MESSAGE_S)
    assert 400 / 2 * SHORT_S <= outcome.wall_s < alone / 2


def test_each_worker_ends_its_jobs_in_the_order_it_got_them() -> None:
    cluster = a_sweep_of_short_jobs()
    cluster.run()
    assert not given(cluster, TakeBack)
    order = {job: place for place, job in enumerate(ends(cluster))}
    for worker in ("standard-1", "standard-2"):
        mine = [order[job] for job, where in given(cluster, StartJob) if where == worker]
        assert mine == sorted(mine)
        assert len(mine) > 150, "both have had their part"


@pytest.mark.parametrize("seconds", [0.001, 0.05, 0.2])
def test_both_workers_are_done_at_about_the_same_time(seconds: float) -> None:
    cluster = a_sweep_of_short_jobs(100, seconds=seconds)
    cluster.run()
    last = {where: ends(cluster)[job] for job, where in given(cluster, StartJob)}
    assert abs(last["standard-1"] - last["standard-2"]) <= 0.3 + seconds


def test_nothing_waits_behind_a_job_that_turns_out_to_be_slow() -> None:
    cluster = a_sweep_of_short_jobs(100, seconds=0.05).with_fault("s/30", FaultKind.SLOW, factor=1000)
    outcome = cluster.run()
    assert complete_in(outcome, 100)
    assert given(cluster, TakeBack), "some lay behind it"
    last = sorted(ends(cluster).items(), key=lambda end: end[1])
    assert last[-1][0] == "s/30"
    assert last[-2][1] - outcome.started < 10, "the others were done long before the 50 s it took"


def test_a_worker_that_dies_loses_only_the_job_it_was_in() -> None:
    outcome = a_sweep_of_short_jobs(100).with_fault("s/30", FaultKind.WORKER_DIES).run()
    assert outcome.complete
    assert outcome.retries == 1
    assert [alert.path for alert in outcome.alerts if alert.code == "retry-used"] == ["s/30"]


def test_a_job_that_only_dozed_is_not_killed_and_costs_no_retry() -> None:
    outcome = a_cluster().with_sweep("s", 5, 5).with_fault("s/0", FaultKind.DOZES).run()
    assert complete_in(outcome, 5)
    assert [alert.code for alert in outcome.alerts] == ["stuck", "stuck-withdrawn"]


def test_code_that_cannot_be_loaded_ends_the_sweep_after_one_attempt_per_worker() -> None:
    cluster = a_cluster().with_sweep("s", 50, 2).with_fault("s/0", FaultKind.CANNOT_START)
    outcome = cluster.run()
    assert outcome.states == {JobState.FAILED: 1, JobState.REFUSED: 48, JobState.FINISHED: 1}
    assert outcome.attempts == 2
    assert outcome.unfinished == "s/0: cannot start: injected: cannot start"
    assert [alert.code for alert in outcome.alerts if isinstance(alert, Finding)] == ["run-failed", "cannot-start"]


@pytest.mark.parametrize("kind", [FaultKind.KILLED, FaultKind.CRASHES])
def test_a_process_that_goes_by_itself_is_tried_once_more(kind: FaultKind) -> None:
    outcome = a_cluster().with_sweep("s", 5, 5).with_fault("s/0", kind).run()
    assert outcome.complete
    assert outcome.retries == 1
