"""Modelled workers whose allocations end: others come in their place, and the outcome counts them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from scalable.engine.events import JobState, StartJob
from scalable.engine.rules import Walltime
from scalable.planning.simulation.durations import Fixed
from scalable.walltime import for_work_s
from tests.helpers.simulation.builders import Cluster, a_cluster

HOUR = Walltime(3600.0, "targets.hpc.walltime")


def batch(walltime: Walltime = HOUR) -> Cluster:
    cluster = a_cluster().with_times(provision=0, idle=0)
    cluster.walltime = walltime
    return cluster


def test_work_longer_than_an_allocation_is_done_in_several_and_nothing_is_tried_in_vain() -> None:
    outcome = batch().with_sweep("s", 60, 2, Fixed(210)).run()
    assert outcome.states == {JobState.FINISHED: 60}
    assert (outcome.attempts, outcome.retries) == (60, 0)
    per_worker = int(for_work_s(HOUR.seconds) // (210 * 1.1))
    assert outcome.worker_starts["standard"] == pytest.approx(60 / per_worker, abs=2)


def test_a_job_that_fits_no_allocation_is_refused_in_the_forecast_too() -> None:
    outcome = batch().with_sweep("s", 3, 1, Fixed(5000)).run()
    assert outcome.states == {JobState.REFUSED: 3}
    assert outcome.worker_starts == {}
    assert "a job of 5000 s does not fit a walltime of 3600 s" in outcome.unfinished


def test_a_job_with_checkpoints_goes_on_in_the_next_allocation() -> None:
    cluster = batch().with_sweep("s", 1, 1, Fixed(10_000), checkpoints=True)
    outcome = cluster.run()
    assert outcome.states == {JobState.FINISHED: 1}
    assert outcome.worker_starts == {"standard": 3}, "10,000 s in parts of 3,590 s"
    assert outcome.wall_s == pytest.approx(10_000, rel=0.02), "no part is done twice"


def test_workers_are_replaced_before_they_end() -> None:
    cluster = batch().with_times(provision=120, idle=0).with_sweep("s", 120, 1, Fixed(210))
    outcome = cluster.run()
    starts = [time for time, _, told in cluster.seen for one in told if isinstance(one, StartJob)]
    pauses = [after - before - 210 for before, after in pairwise(starts)]
    assert outcome.complete
    assert outcome.worker_starts["standard"] > 5
    assert max(pauses) < 120, "the next one was asked for before it was needed"
