"""However a program ends, nothing of it stays in the cluster: no pod, no Secret, no parent, no node to pay for."""

from __future__ import annotations

import os
import signal

from tests.helpers.kubernetes.helpers import Namespace, Project, over
from tests.helpers.kubernetes.programs import Program
from tests.helpers.waiting import eventually
from tests.tools import processes

KILLED_WITHIN_S = 60.0  # stated in docs/explanation/kubernetes.md; ten seconds are usual
ORPHANED_WITHIN_S = 120.0  # the relay waits a minute for a driver that may come back


def test_a_killed_driver_leaves_nothing(kube: Namespace, project: Project) -> None:
    with Program(project) as program:
        assert len(kube.workers()) == 2
        program.process.kill()
        program.over()
        eventually(lambda: kube.left() == [], lambda: f"{kube.left()} to be gone", KILLED_WITHIN_S)


def test_pods_end_by_themselves_and_free_their_nodes_if_the_reaper_is_killed_as_well(
    kube: Namespace, project: Project
) -> None:
    with Program(project, "burst") as program:
        os.kill(program.reaper, signal.SIGKILL)
        program.process.kill()
        program.over()

        def running() -> list[str]:
            return [pod["metadata"]["name"] for pod in kube.pods() if not over(pod)]

        eventually(lambda: running() == [], lambda: f"{running()} to end", ORPHANED_WITHIN_S)
        eventually(lambda: not kube.nodes("burst"), lambda: f"{kube.nodes('burst')} to go")


def test_an_interrupted_program_leaves_nothing(kube: Namespace, project: Project) -> None:
    with Program(project) as program:
        os.killpg(program.process.pid, signal.SIGINT)  # as a terminal does
        assert program.over().rstrip().endswith("KeyboardInterrupt")
        assert kube.left() == []
        assert processes.look(program.reaper) is None  # it was told that nothing is left to do
