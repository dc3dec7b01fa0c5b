"""How soon workers are asked for again after they could not be had, and when hope is given up, by the cause."""

from __future__ import annotations

import pytest

from scalable.engine.events import JobState, Loss, WorkersGivenUp, WorkersRefused
from scalable.engine.fleet import MAX_REFUSALS
from tests.helpers.engine.builders import a_world


@pytest.mark.parametrize("cause", [Loss.CANNOT_START, Loss.OUT_OF_MEMORY])
def test_a_start_that_would_fail_anywhere_is_tried_twice_within_seconds(cause: Loss) -> None:
    world = a_world().with_sweep("a")
    world.happens(WorkersRefused("standard", 1, "no module named model", cause))
    assert world.state("a/1") is JobState.QUEUED
    world.passes(10)
    assert len(world.asked()) == 2
    world.happens(WorkersRefused("standard", 1, "no module named model", cause))
    assert world.failure("a/1").reason == "no worker could be had: no module named model"
    assert world.all(WorkersGivenUp) == [WorkersGivenUp("standard", "no module named model")]


def test_workers_of_one_request_that_are_lost_while_they_start_count_once() -> None:
    world = a_world().with_sweep("a", jobs=5, workers=5)
    for _ in range(5):
        world.happens(WorkersRefused("standard", 1, "cannot reach the scheduler", Loss.WORKER_LOST))
    assert world.state("a/1") is JobState.QUEUED
    assert not world.all(WorkersGivenUp)


def test_a_worker_that_was_lost_while_it_started_is_asked_for_again_at_once_but_not_for_ever() -> None:
    world = a_world().with_sweep("a")
    for _ in range(MAX_REFUSALS):
        assert not world.all(WorkersGivenUp)
        world.happens(WorkersRefused("standard", 1, "cannot reach the scheduler", Loss.WORKER_LOST))
        world.passes(10)
    assert world.failure("a/1").reason == "no worker could be had: cannot reach the scheduler"


def test_a_thousand_refusals_still_lead_to_a_delay() -> None:
    world = a_world().with_kind("standard", minimum=1).with_sweep("a")
    for _ in range(1200):
        world.happens(WorkersRefused("standard", 1, "no module named model", Loss.CANNOT_START))
    before = len(world.asked())
    world.passes(300)
    assert len(world.asked()) == before + 1
