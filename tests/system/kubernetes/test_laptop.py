"""A driver that reaches nothing of the cluster but its API server, and that no pod can reach."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.helpers.kubernetes.helpers import Namespace, Project
from tests.helpers.kubernetes.programs import Program
from tests.helpers.sweeps.faults.trading import assert_same, naive, rows, write
from tests.tools.kube.door import behind_a_wall


def test_a_sweep_from_a_laptop_gives_the_same_rows(kube: Namespace, project: Project) -> None:
    write(project.folder, project.target(code="image", adaptive={"minimum": 0, "maximum": 2}), folds=1)
    with behind_a_wall(kube.kubeconfig) as wall:
        command = [*wall, sys.executable, "-m", "scalable", "run", "--sweep", "calibration"]
        done = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_same(rows(project.folder), naive(folds=1))
    assert kube.left() == []


def test_a_program_on_a_laptop_can_be_interrupted(kube: Namespace, project: Project) -> None:
    with behind_a_wall(kube.kubeconfig) as wall, Program(project, workers=1, wall=wall) as program:
        os.kill(program.process.pid, signal.SIGINT)
        assert program.over().rstrip().endswith("KeyboardInterrupt")
        assert kube.left() == []
    assert not list(Path(project.folder).rglob("*.pem"))
