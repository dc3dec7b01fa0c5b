"""What an operator does when things go wrong, and how long it takes until work goes on, beside what the sources allow.

Each function opens a live session on this machine, makes the fault, and gives the seconds until work goes on. The tests
in ``tests/chaos`` call the same functions. ``python -m benchmarks.operations`` prints the table.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from benchmarks.peers import TAG, WORKERS
from benchmarks.sessions import Ends, opened, submit

if TYPE_CHECKING:
    from scalable.session.session import ScalableSession

ROUNDS = 3
RUNS = 20
RUN_S = 0.15
LONG_S = 120.0  # nothing here may take longer
PATIENT: dict[str, Any] = {
    "policies": {"retry": {"times": 5, "delay": "0.1s", "cap": "1s"}}
}  # the usual delay of 60 s is a choice
ALLOWED_S = {  # K1: what the sources give for each
    "a bad sizing is rolled back": 600.0,
    "a node is lost": 120.0,
    "all nodes are lost": 600.0,
    "the money is used up": 60.0,  # immediate; killing takes less than a minute (H4)
    "paused at once and resumed": 600.0,
}


def measure() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, allowed in ALLOWED_S.items():
        seconds = statistics.median(OPERATIONS[name]() for _ in range(ROUNDS))
        found[name] = {"seconds": round(seconds, 2), "goal_seconds": allowed, "ratio": round(seconds / allowed, 4)}
    return found


def node_lost() -> float:
    """Until a worker that took the lost one's place has finished a run."""
    return after_losing(1)


def all_nodes_lost() -> float:
    return after_losing(WORKERS)


def after_losing(count: int) -> float:
    from scalable.chaos import Processes, lose

    with opened(**PATIENT) as session:
        ends = work(session)
        wait(lambda: done(ends) >= 4, "the first runs end")
        living = Processes(session.folder).workers()
        began = time.monotonic()
        for victim in living[:count]:
            lose(victim)
        names = {victim.worker for victim in living}
        wait(lambda: finished_on(session) - names, "a new worker finishes a run")
        took = time.monotonic() - began
        all_finish(ends)
    return took


def rolled_back() -> float:
    """From no workers at all back to the plan before: until that many work again."""
    with opened(**PATIENT) as session:
        session.scale({TAG: 0}, "a bad sizing")
        ends = work(session)
        began = time.monotonic()
        session.scale({TAG: WORKERS}, "the plan before")
        wait(lambda: done(ends) >= 1, "runs end again")
        took = time.monotonic() - began
        assert there(session) == WORKERS
        all_finish(ends)
    return took


def money_used_up() -> float:
    """From the moment the budget is over until nothing runs and no worker is left to be paid."""
    from scalable.quantities import Money

    with opened(target={"cpu_price": "36 EUR/h"}, **PATIENT) as session:
        state = session.live().engine.state
        ends = work(session, 10 * RUNS)
        wait(lambda: done(ends) >= 4 and state.spending.per_hour, "the first runs end and are paid for")
        began = time.monotonic()
        state.spending.budget = state.spending.spent or Money.parse("0 EUR")
        wait(lambda: state.braked and there(session) == 0, "everything stops and workers go")
        took = time.monotonic() - began
        states = {future.result(LONG_S)[0].value for future in ends.values()}
        assert states == {"finished", "stopped"}, states
    return took


def paused_and_resumed() -> float:
    """What runs is stopped and workers go; then until work goes on. The time between the two is not counted."""
    from scalable.telemetry.mailbox import ask

    with opened(**PATIENT) as session:
        ends = work(session)
        wait(lambda: done(ends) >= 4, "the first runs end")
        began = time.monotonic()
        ask(session.folder, "pause", now=True)
        wait(lambda: there(session) == 0, "workers go")
        took = time.monotonic() - began
        before = done(ends)
        began = time.monotonic()
        ask(session.folder, "resume")
        wait(lambda: done(ends) > before, "work goes on")
        took += time.monotonic() - began
        all_finish(ends)
    return took


OPERATIONS: dict[str, Callable[[], float]] = {
    "a bad sizing is rolled back": rolled_back,
    "a node is lost": node_lost,
    "all nodes are lost": all_nodes_lost,
    "the money is used up": money_used_up,
    "paused at once and resumed": paused_and_resumed,
}


def work(session: ScalableSession, runs: int = RUNS) -> Ends:
    return submit(session, nap, [{"seconds": RUN_S}] * runs)


def nap(seconds: float) -> None:
    time.sleep(seconds)


def done(ends: Ends) -> int:
    return sum(future.done() for future in ends.values())


def all_finish(ends: Ends) -> None:
    told = {future.result(LONG_S)[0].value for future in ends.values()}
    assert told == {"finished"}, told


def finished_on(session: ScalableSession) -> set[str]:
    """Workers that have finished a run."""
    from scalable.telemetry import read

    records: Iterable[dict[str, Any]] = read(session.folder.journal)
    return {one["worker"] for one in records if one["kind"] == "attempt-ended" and one["outcome"] == "finished"}


def there(session: ScalableSession) -> int:
    return sum(member.address is not None for member in session.live().cluster.members.values())


def wait(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + LONG_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {LONG_S:.0f} s until {what}")
        time.sleep(0.01)


def main() -> None:
    print(f"{'':<30} {'seconds':>8} {'allowed':>8}")
    for name, figures in measure().items():
        print(f"{name:<30} {figures['seconds']:>8.1f} {figures['goal_seconds']:>8.0f}")


if __name__ == "__main__":
    main()
