"""Work to be interrupted: a task that runs until it is told to finish, and tasks that need too much memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from scalable.session.session import ScalableSession
from tests.helpers.kubernetes.helpers import SMALL, WITHIN_S, Project
from tests.helpers.waiting import eventually

TOO_MUCH = 900_000_000  # bytes, for a worker of 700 MB


def with_long_task(project: Project, pool: str = "steady", **sections: Any) -> ScalableSession:
    task = {"component": "demeter", "run": "model:long", "arguments": {"told": str(project.kube.shared / "told")}}
    parts = {"components": {"demeter": SMALL}, "tasks": {"long": task}, **sections}
    return project.session(project.target(pool, max_workers=1), **parts)


@contextmanager
def at_work(project: Project, session: ScalableSession) -> Iterator[str]:
    """While the task ``long`` runs in a pod; at the end it is told to finish, and must have."""
    results: list[Any] = []
    told = project.kube.shared / "told"

    def run() -> None:
        try:
            results.append(session.run_tasks())
        except BaseException as error:  # noqa: BLE001, told below
            results.append(error)

    runner = threading.Thread(target=run)
    runner.start()
    try:
        eventually(lambda: project.running() or results, lambda: f"the task to run: {project.journal('finding')}")
        assert not results
        yield project.running()[0]
    finally:
        told.touch()
        runner.join(WITHIN_S)
    assert [list(result) for result in results] == [["long"]], results


def with_hungry_task(project: Project) -> ScalableSession:
    """One that the smaller of two kinds of workers cannot do."""
    told = project.kube.shared / "told"
    told.touch()
    task = {"component": "small", "run": "model:hungry", "arguments": {"told": str(told), "size": TOO_MUCH}}
    return project.session(
        project.target(max_workers=2),
        components={"small": {**SMALL, "larger": "large"}, "large": {**SMALL, "memory": "1600M"}},
        tasks={"hungry": task},
    )


def hoarding() -> Callable[[], int]:
    """Made here, so that it travels by value: tests are not in pods."""
    size = TOO_MUCH

    def hoard() -> int:
        return len(bytearray(b"x") * size)

    return hoard
