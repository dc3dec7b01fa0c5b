"""Sessions in the virtual world that leave a record to replay, each with something else that happens in it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from scalable import TaskError
from scalable.engine.events import Paused
from scalable.observe import RunFolder
from scalable.planning.site import Machine
from scalable.quantities import Cpu, Memory
from scalable.session.session import ScalableSession
from tests.helpers.paths import ROOT
from tests.helpers.session.builders import Project
from tests.helpers.session.sweeps import Sweeps
from tests.helpers.session.virtual import World

RECORDED = ROOT / "tests/data/recorded"
CODE = """
    import time
    from pathlib import Path
    import scalable
    from tests.helpers.session.virtual_workers import die, use_memory

    def first_time(name):
        there = Path(name).exists()
        Path(name).touch()
        return not there

    def steps(count):
        for step in range(count):
            scalable.progress(step, count)
            time.sleep(1)
        return count

    def grow_once():
        time.sleep(7)
        if first_time("grown"):
            use_memory(520 << 20)
            die("out of memory", "killed")
        return "fits"

    def hang_once():
        scalable.progress(1, 3, "loading")
        time.sleep(4)
        if first_time("hung"):
            time.sleep(600)
        return "arrived"
"""
STEPS = {"count": 12}
SOON = {"retry": {"delay": "2s"}, "stuck": {"after": "20s"}}
ADAPTIVE = {"max_workers": 2, "adaptive": {"minimum": 0, "maximum": 2}}
SECOND = {"cpu_price": "3600 EUR/h"}  # one euro a second


def a_sweep(project: Project, world: World) -> None:
    sweeps = Sweeps(project)
    sweeps.rewrite('    note(f"fitted', '    import time; time.sleep(2 * depth + fold)\n    note(f"fitted')
    sweeps.run()


def a_climb(project: Project, world: World) -> None:
    """A job runs out of memory and finishes on a larger worker."""
    run_tasks(
        project,
        {"one": "steps", "two": "steps", "grow": "grow_once"},
        target={"max_workers": 3},
        components={"demeter": {"memory": "500MB", "larger": "large"}, "large": {"memory": "2GB"}},
    )


def a_stuck_job(project: Project, world: World) -> None:
    run_tasks(project, {"one": "steps", "hang": "hang_once", "two": "steps"})


def a_lost_worker(project: Project, world: World) -> None:
    world.at(6, world.lose, "demeter-0")
    run_tasks(project, {"one": "steps", "two": "steps", "three": "steps"})


def a_budget_stop(project: Project, world: World) -> None:
    """The money is used up while jobs run and others wait."""
    names = {"one": "steps", "two": "steps", "three": "steps", "four": "steps"}
    with suppress(TaskError):
        run_tasks(project, names, target=SECOND | {"max_workers": 2}, budget={"monthly": "150 EUR"})


def a_pause(project: Project, world: World) -> None:
    """Somebody pauses and resumes, a worker is refused, one is lost idle, and Dask is given a task of its own."""
    refused = ["quota"]
    world.refuse = lambda name: refused.pop() if refused and name == "demeter-1" else ""
    session = session_of(project, {"one": "steps", "two": "steps", "three": "steps"}, target=ADAPTIVE)
    with session as client:
        halt = session.live().halt
        world.at(3, halt, "operator", Paused())
        world.at(30, halt, "operator", None)
        task = client.submit(int, "5", tag="demeter")
        session.run_tasks()
        assert task.result() == 5


RUNS: dict[str, Callable[[Project, World], None]] = {
    "sweep": a_sweep,
    "climb": a_climb,
    "stuck-job": a_stuck_job,
    "lost-worker": a_lost_worker,
    "budget-stop": a_budget_stop,
    "pause": a_pause,
}


def record(name: str, project: Project, world: World) -> RunFolder:
    """Run a session and return its folder; what it records does not depend on this machine."""
    world.clock.origin = 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scalable.session.machine.this_machine", lambda: Machine(Cpu.of(4), Memory.of_gib(16)))
        RUNS[name](project, world)
    return RunFolder(project.runs()[-1])


def session_of(project: Project, names: dict[str, str], **sections: Any) -> ScalableSession:
    """A project with tasks: their names, and the functions of ``CODE`` that they call."""
    module = project.module(CODE)
    tasks = {
        name: {"component": "demeter", "run": f"{module}:{function}", "arguments": STEPS if function == "steps" else {}}
        for name, function in names.items()
    }
    return project.session(**{"target": {"max_workers": 2}, "policies": SOON, **sections}, tasks=tasks)


def run_tasks(project: Project, names: dict[str, str], **sections: Any) -> None:
    with (session := session_of(project, names, **sections)):
        session.run_tasks()
