"""What follows news of workers: they join, are lost, get notice, are refused or withdrawn, or work for others."""

from __future__ import annotations

from scalable.engine import ending, fleet, workers
from scalable.engine.events import (
    BoundsSet,
    Loss,
    OutsideWork,
    RunLost,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkersGivenUp,
    WorkersRefused,
    WorkersWithdrawn,
)
from scalable.engine.state import State


def on_joined(state: State, event: WorkerJoined, now: float) -> None:
    if event.tag not in state.tags:
        state.alert("unknown-tag", f"the worker {event.worker} has the unknown tag {event.tag!r}")
        return
    workers.join(state, event.worker, event.tag, now)
    state.touched.add(event.tag)


def on_lost(state: State, event: WorkerLost, now: float) -> None:
    record = state.workers.get(event.worker)
    if record is None:
        return
    workers.retire(state, record)
    cause = Loss.STOPPED if record.told else event.cause  # whom we sent away for another run's sake
    record.told = True
    for run in list(reversed(record.ahead)):  # before those that had begun, or they would begin in turn
        ending.return_unbegun(state, state.runs[run], now)
    for run in list(record.runs):
        one = state.runs[run]
        told = RunLost(run, one.attempt, one.killed_for or cause, event.peak, event.message)
        ending.lost(state, one, told, now)
    state.out += fleet.died(state, record, cause, now)
    workers.gone(state, record)
    state.touched.add(record.tag)


def on_leaving(state: State, event: WorkerLeaving, now: float) -> None:
    record = state.workers.get(event.worker)
    if record is not None:
        workers.retire(state, record)
        workers.take_back(state, record)
        workers.release(state, record)
        state.touched.add(record.tag)


def on_refused(state: State, event: WorkersRefused, now: float) -> None:
    if event.tag not in state.tags:
        return
    state.out += fleet.refused(state, event, now)
    tags = state.tags[event.tag]
    state.touched.add(event.tag)
    if fleet.hopeless(tags):
        for record in tags.queue.all():
            ending.stop(state, record, f"no worker could be had: {event.reason}", Loss.STOPPED)
        state.out.append(WorkersGivenUp(event.tag, event.reason))


def on_withdrawn(state: State, event: WorkersWithdrawn, now: float) -> None:
    if event.tag in state.tags:
        fleet.withdrawn(state, event, now)
        state.touched.add(event.tag)


def on_outside(state: State, event: OutsideWork, now: float) -> None:
    if event.tag in state.tags:
        workers.outside(state, event, now)
        state.touched.add(event.tag)
        for worker in [w for w in state.workers.values() if w.leaving and w.tag == event.tag]:
            workers.release(state, worker)


def on_bounds(state: State, event: BoundsSet, now: float) -> None:
    if event.tag in state.tags:
        record = state.tags[event.tag]
        record.minimum, record.maximum = event.minimum, event.maximum
        for worker in event.leaving:
            if one := state.workers.get(worker):
                workers.retire(state, one)
                one.told = True
                workers.take_back(state, one)
        state.touched.add(event.tag)
