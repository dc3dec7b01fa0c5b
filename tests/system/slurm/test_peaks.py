"""Memory peaks of tasks in batch jobs: a program that a task calls is in them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.slurm.helpers import WITHIN_S, made
from tests.helpers.waiting import eventually
from tests.tools.slurm import PrivateSlurm

MIB = 2**20


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def modelling() -> Callable[[], int]:
    def model() -> int:
        """Calls a program of 300 MiB, as code does that calls a compiled model."""
        program = "import time; held = b'x' * (300 << 20); time.sleep(1)"
        return subprocess.run([sys.executable, "-c", program], check=False).returncode

    return model


def test_a_program_that_a_task_calls_is_in_its_peak_plain_or_guarded(slurm: PrivateSlurm) -> None:
    with made() as it:
        it.cluster.add_container(tag="model", cpus=1, memory="900M")
        it.cluster.add_workers(1, "model")
        plain = it.client.submit(modelling(), tag="model")
        assert plain.result(WITHIN_S) == 0
        guarded = it.client.submit(modelling(), tag="model", guarded=True)
        assert guarded.result(WITHIN_S) == 0

        def peaks() -> dict[str, int]:
            return {key: peak for facts in it.of("peaks") for key, peak in facts["peaks"].items()}

        eventually(lambda: {str(plain.key), str(guarded.key)} <= set(peaks()), lambda: str(it.told), WITHIN_S)
        assert 300 * MIB < peaks()[str(guarded.key)] < 400 * MIB, "the runner with the program"
        assert 350 * MIB < peaks()[str(plain.key)] < 600 * MIB, "the worker with the program"
