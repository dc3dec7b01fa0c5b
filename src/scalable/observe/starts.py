"""The times of the parts of a session's start and end, as its journal tells them.

Each part has another cause and another place in a forecast. Before workers are asked for no node comes and none is
paid. A node takes as long as its cloud takes. A worker takes as long as its image, its connection and its first runner
take: longer on a node that came for it than on one that was there. Jobs are handed over and their results back.
Measured in one sum they would be put into the wrong place: see ``planning.simulation``.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any, NamedTuple

from scalable.observe.fleet import Worker
from scalable.observe.view import RunView

FOUND_READY_S = 5.0  # no cloud starts a machine in less: a worker that had its node by then found it there
OWN_S = 3.0  # between a session's first look at its workers and a sweep: more is somebody's pause, less its own work
WARM_UP_S = 10.0  # after its connection within which a worker's first job begins if there is one for it
LONGEST_S = 10 * 365 * 86400 - 1  # the planner believes nothing longer


def start_times(view: RunView) -> dict[str, Any]:
    """Return the parts that were seen, as the history keeps them; empty if the run computed nothing of a sweep."""
    sweep_began = min((sweep.began for sweep in view.sweeps.values() if sweep.began is not None), default=None)
    asked = [worker.asked for worker in view.fleet.workers.values() if worker.asked is not None]
    if sweep_began is None or view.began is None or not asked:
        return {}
    if view.work_began is None or view.work_began < sweep_began:  # its units were there, or it came after other work
        return {}
    waits = [wait for name, worker in view.fleet.workers.items() if (wait := wait_of(view, name, worker)) is not None]
    nodes: dict[str, list[float]] = {}
    for wait in waits:
        if wait.node_s is not None:
            nodes.setdefault(wait.pool, []).append(wait.node_s)
    parts = {
        "ask_s": min(asked) - view.began - pause(view, sweep_began, min(asked)),
        "join_s": usual(wait.ready_s for wait in waits if wait.node_s is not None),
        "warm_s": usual(wait.ready_s for wait in waits if wait.node_s is None),
        "hand_s": view.handing.quantile(0.5),
        "close_s": close_s(view),
    }
    known = {name: round(part, 6) for name, part in parts.items() if part is not None and possible(part)}
    came = {pool: round(median(times), 6) for pool, times in sorted(nodes.items())}
    return {**known, **({"node_s": came} if came else {})}


def pause(view: RunView, sweep_began: float, asked: float) -> float:
    """Return for how long a session that was ready had nothing to do: nobody had asked it for a sweep."""
    ready = view.watched_from
    idle = sweep_began - ready if ready is not None and ready < sweep_began <= asked else 0.0
    return idle if idle > OWN_S else 0.0


class Wait(NamedTuple):
    """The cause of a worker's wait."""

    node_s: float | None
    """Its node, which had to come; None if it was there."""
    ready_s: float
    """Its own start on that node: its image, its connection and its first runner."""
    pool: str


def wait_of(view: RunView, name: str, worker: Worker) -> Wait | None:
    """Return what a worker waited for, if it was asked for and came."""
    asked, first = worker.asked, worker.joined_first
    if asked is None or first is None or first < asked:
        return None
    began = view.fleet.worked_from.get(name, first)
    ready = began if began - first < WARM_UP_S else first  # it waited for work, which says nothing of its start
    machine = view.costs.machines.get(view.costs.lodgers.get(name, ("", 0))[0])
    up = machine.up if machine is not None else None
    if machine is not None and up is not None and asked + FOUND_READY_S < up <= ready:
        return Wait(up - asked, ready - up, machine.pool)
    return Wait(None, ready - asked, machine.pool if machine is not None else "")


def usual(times: Iterable[float]) -> float | None:
    known = list(times)
    return median(known) if known else None


def close_s(view: RunView) -> float | None:
    """Return how long the session took to close, after which its workers are gone.

    The last gauge is written as that begins.
    """
    began, ended = view.gauge.get("t"), view.ended.get("t")
    return ended - began if began is not None and ended is not None else None


def possible(seconds: float) -> bool:
    """Return whether something can have taken so long; clocks that were wrong must not spoil the history."""
    return round(seconds, 6) > 0 and seconds < LONGEST_S
