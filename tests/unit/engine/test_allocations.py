"""Workers that share an allocation: asked for whole, given back whole, and the fullest are used first."""

from __future__ import annotations

from scalable.engine.events import Loss, RemoveWorker, StartJob, WorkerJoined, WorkerLeaving, WorkerLost
from tests.helpers.engine.builders import World, a_world, only


def batches(of: int = 4) -> World:
    return a_world().with_jobs_of(of).with_policy("scaling", idle="60s", cooldown="1s").with_willing_cluster()


def test_workers_are_asked_for_in_whole_jobs() -> None:
    assert batches().with_sweep("a", jobs=25, workers=5).asked() == [8]
    assert batches().with_sweep("a", jobs=8, workers=8).asked() == [8]


def test_a_maximum_holds_where_it_does_not_fill_a_job() -> None:
    assert batches().with_kind("standard", maximum=6).with_sweep("a", jobs=25, workers=5).asked() == [6]
    assert batches().with_most_workers(7).with_sweep("a", jobs=25, workers=5).asked() == [7]
    assert batches().with_kind("standard", minimum=5, maximum=5).with_sweep("a", jobs=25).asked() == [5]


def test_what_fills_no_job_waits_until_those_that_leave_are_gone() -> None:
    world = batches().with_most_workers(4).with_sweep("a", jobs=25, workers=4)
    ending = list(world.engine.state.workers)
    for worker in ending:
        world.happens(WorkerLeaving(worker))
    for worker in ending[:3]:
        world.happens(WorkerLost(worker, Loss.PREEMPTED))
        assert world.asked() == [4], "a job for one worker would be there for as long as one for four"
    world.happens(WorkerLost(ending[3], Loss.PREEMPTED))
    assert world.asked() == [4, 4]


def test_a_job_is_given_back_when_none_of_its_workers_has_had_work_for_a_while() -> None:
    world = batches().with_sweep("a", jobs=4, workers=4)
    world.finishes("a/1", "a/2", "a/3")
    world.passes(50)
    world.finishes("a/4")
    assert not world.all(RemoveWorker)
    assert not only(RemoveWorker, world.passes(59)), "the last has been idle for less than a minute"
    assert len(only(RemoveWorker, world.passes(2))) == 4


def test_no_worker_goes_while_another_of_its_job_is_busy() -> None:
    world = batches().with_policy("stuck", after="1h").with_sweep("a", jobs=4, workers=4)
    world.finishes("a/1", "a/2", "a/3")
    assert not only(RemoveWorker, world.passes(1000))


def test_a_minimum_keeps_the_whole_job_that_it_needs_and_no_other() -> None:
    world = batches().with_kind("standard", minimum=2).with_sweep("a", jobs=8, workers=8)
    world.finishes(*(f"a/{n}" for n in range(1, 9)))
    world.passes(200)
    assert len(world.all(RemoveWorker)) == 4


def test_new_work_goes_to_the_busiest_job_so_that_the_other_runs_empty() -> None:
    world = batches().with_policy("stuck", after="1h").with_sweep("a", jobs=8, workers=8)
    where = {start.job: start.worker for start in world.all(StartJob)}
    allocation = {name: record.allocation for name, record in world.engine.state.workers.items()}
    first = allocation[where["a/1"]]
    in_first = [job for job, worker in where.items() if allocation[worker] == first]
    others = [job for job in where if job not in in_first]
    world.finishes(*in_first[1:], *others)  # the last one busy was in the other job
    world.with_sweep("b", jobs=2, workers=2)
    assert {allocation[world.starts(f"b/{n}")[0].worker] for n in (1, 2)} == {first}
    gone = only(RemoveWorker, world.passes(100))
    assert {allocation[instruction.worker] for instruction in gone} == set(allocation.values()) - {first}


def test_a_worker_that_is_lost_takes_no_other_with_it_and_the_rest_goes_as_a_whole() -> None:
    world = batches().with_kind("standard", maximum=4).with_sweep("a", jobs=4, workers=4)
    (lost,) = world.starts("a/1")
    world.obliging = False
    world.happens(WorkerLost(lost.worker, Loss.NODE_LOST))
    assert len(world.engine.state.workers) == 3
    world.obliging = True
    world.happens(WorkerJoined("late", "standard", "job of its own"))
    world.finishes("a/2", "a/3", "a/4")
    world.passes(200)
    world.finishes("a/1")
    world.passes(200)
    assert not world.engine.state.workers and not world.engine.state.allocations


def test_workers_of_two_kinds_in_one_job_go_together() -> None:
    world = a_world().with_jobs_of(4).with_policy("scaling", idle="60s", cooldown="1s").with_policy("stuck", after="1h")
    world.with_sweep("a", jobs=1, workers=1)
    world.happens(WorkerJoined("s", "standard", "shared"), WorkerJoined("w", "wfrb", "shared"))
    assert not only(RemoveWorker, world.passes(300)), "one of them is busy"
    world.finishes("a/1")
    assert {one.worker for one in only(RemoveWorker, world.passes(61))} == {"s", "w"}
