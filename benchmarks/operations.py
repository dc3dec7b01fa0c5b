"""What an operator does when things go wrong, and how long it takes until work goes on, beside what the sources allow.

Each function opens a live session on this machine, makes the fault, and gives the seconds until work goes on. The tests
in ``tests/live/chaos`` call the same functions. ``python -m benchmarks.operations`` prints the table, with the tests
of the same on Slurm and Kubernetes, and writes ``benchmarks/results/operations.json``.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
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
RESULTS = Path(__file__).parent / "results/operations.json"
HANGS_ONCE = """
import time
from pathlib import Path

flag = Path({flag!r})
if not flag.exists():
    flag.touch()
    time.sleep(3600)
"""


def measure() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, one in OPERATIONS.items():
        seconds = statistics.median(one.carry_out() for _ in range(ROUNDS))
        goal = {"goal_seconds": one.allowed_s, "ratio": round(seconds / one.allowed_s, 4)}
        found[name] = {"seconds": round(seconds, 2), **goal, "how": one.how, "also": list(one.also)}
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
    """A session with too few workers gets back those of the run before it: until all of them are there."""
    from scalable.cli.main import main as scalable
    from scalable.session.session import ScalableSession

    with opened(**PATIENT) as before:
        before.close()
        session = ScalableSession.from_yaml(before.path)
        session.start(session.plan(objective="minimize cost"))  # one worker: nothing is known that speaks against it
        try:
            ends = work(session)
            began = time.monotonic()
            with redirect_stdout(StringIO()):
                assert scalable(["rollback"]) == 0
            wait(lambda: there(session) == WORKERS, "all workers are there")
            took = time.monotonic() - began
            all_finish(ends)
        finally:
            session.close()
    return took


def worker_never_came() -> float:
    """The first worker hangs while it starts; it is killed by hand, another is asked for, and work goes on."""
    from scalable.observe.mailbox import ask

    with ExitStack() as ends_with:
        script = Path(ends_with.enter_context(tempfile.TemporaryDirectory())) / "hangs_once.py"
        flag = script.with_suffix(".flag")
        script.write_text(HANGS_ONCE.format(flag=str(flag)), encoding="utf-8")
        target, kinds = {"adaptive": {"minimum": 0, "maximum": 1}}, {TAG: {"preload_script": str(script)}}
        session = ends_with.enter_context(opened(target=target, components=kinds))
        ends = work(session, 4)
        wait(flag.exists, "the first worker starts")
        (stuck,) = session.live().cluster.members
        began = time.monotonic()
        ask(session.folder, "kill", target=stuck)
        wait(lambda: done(ends) >= 1, "a run ends")
        took = time.monotonic() - began
        all_finish(ends)
    return took


def money_used_up() -> float:
    """From the moment the budget is over until nothing runs and no worker is left to be paid."""
    from scalable.quantities import Money

    with opened(target={"cpu_price": "36 EUR/h"}, budget={"monthly": "1000 EUR"}, **PATIENT) as session:
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
    from scalable.observe.mailbox import ask

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


@dataclass(frozen=True, slots=True)
class Operation:
    how: str
    """The command, or that nobody needs to do anything."""
    allowed_s: float
    """K1: what the sources give for it."""
    carry_out: Callable[[], float]
    also: tuple[str, ...] = ()
    """Tests of the same elsewhere."""


SLURM, KUBERNETES = "tests/system/slurm/test_losses.py", "tests/system/kubernetes/test_losses.py"
OPERATIONS = {
    "a bad sizing is rolled back": Operation(
        "scalable ops rollback", 600.0, rolled_back, ("tests/live/session/test_rollback.py",)
    ),
    "a worker that was asked for never comes": Operation(
        "scalable ops kill WORKER", 300.0, worker_never_came,
        ("tests/live/session/test_giving_up.py", "tests/unit/engine/test_scaling.py"),
    ),
    "a node is lost": Operation(
        "automatic", 120.0, node_lost,
        (f"{SLURM}::test_work_of_a_crashed_node_goes_on_before_slurm_notices",
         f"{KUBERNETES}::test_work_of_a_crashed_node_goes_on_on_another"),
    ),
    "all nodes are lost": Operation(
        "automatic", 600.0, all_nodes_lost, (f"{SLURM}::test_slurm_may_be_away_for_a_while",)
    ),
    "the money is used up": Operation(  # immediate; killing takes less than a minute
        "automatic", 60.0, money_used_up, ("tests/live/session/test_budget.py", "tests/live/session/test_costs.py"),
    ),
    "paused at once and resumed": Operation("scalable ops pause --now, scalable ops resume", 600.0, paused_and_resumed),
}  # fmt: skip


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
    from scalable.observe import read

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
    found = measure()
    print(f"{'':<40} {'how':<38} {'seconds':>8} {'allowed':>8}")
    for name, figures in found.items():
        print(f"{name:<40} {figures['how']:<38} {figures['seconds']:>8.1f} {figures['goal_seconds']:>8.0f}")
        for test in figures["also"]:
            print(f"{'':<40} {test}")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
