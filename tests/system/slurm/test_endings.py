"""However a program ends, nothing of it stays: no job, running or pending, no worker, no child of a worker, no key."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from scalable.cluster.slurm import commands
from tests.helpers.slurm.helpers import WITHIN_S, left_by, made, workers_of
from tests.helpers.slurm.programs import Program
from tests.helpers.waiting import eventually
from tests.tools import processes
from tests.tools.slurm import PrivateSlurm, Settings, daemons


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    with ExitStack() as ends:
        yield ends


def expect_nothing_left(program: Program, slurm: PrivateSlurm) -> None:
    left = program.left
    eventually(lambda: not left(slurm), lambda: f"these to be gone: {left(slurm)}")


@pytest.mark.parametrize(
    ("workers", "busy"),
    [
        pytest.param(2, 2, marks=pytest.mark.long, id="running"),  # as are four of the others
        pytest.param(20, 4, id="most of them pending"),
    ],
)
def test_a_killed_driver_leaves_nothing(slurm: PrivateSlurm, tmp_path: Path, workers: int, busy: int) -> None:
    program = Program(tmp_path, "time.sleep(300)", workers, busy)
    assert program.reaper
    assert len(slurm.living()) == workers
    assert left_by(program.name)
    program.process.kill()
    program.process.communicate()
    expect_nothing_left(program, slurm)


def test_workers_end_by_themselves_if_the_reaper_is_killed_as_well(slurm: PrivateSlurm, tmp_path: Path) -> None:
    program = Program(tmp_path, "time.sleep(300)", workers=2, busy=2)
    os.kill(program.reaper, signal.SIGKILL)
    program.process.kill()
    program.process.communicate()
    eventually(lambda: not slurm.living(), lambda: f"{slurm.living()} to end")
    assert workers_of(tmp_path) == []
    assert left_by(program.name) == []


def test_ctrl_c_and_errors_leave_nothing(slurm: PrivateSlurm, tmp_path: Path, ends: ExitStack) -> None:
    endings = {
        "interrupted while jobs are handed in": (  # first, while it does that
            "cluster.add_workers(30, 'wide'); time.sleep(300)",
            "KeyboardInterrupt",
        ),
        "interrupted": ("time.sleep(300)", "KeyboardInterrupt"),
        "failed": ("raise ValueError('as scripts do')", "ValueError: as scripts do"),
    }
    programs = {}
    for name, (end, _) in endings.items():
        (tmp_path / name).mkdir()
        programs[name] = Program(tmp_path / name, end, workers=1, busy=1)
        ends.callback(programs[name].process.kill)
    for name, program in programs.items():
        assert program.reaper
        if name.startswith("interrupted"):
            os.killpg(program.process.pid, signal.SIGINT)  # as a terminal does
        _, text = program.process.communicate(timeout=WITHIN_S)
        assert program.process.returncode != 0
        assert text.rstrip().endswith(endings[name][1]), text
        assert processes.look(program.reaper) is None  # it was told that nothing is left to do
    for program in programs.values():
        expect_nothing_left(program, slurm)


@pytest.mark.parametrize("fresh_slurm", [Settings(nodes=1, extra=("MessageTimeout=3",))], indirect=True)
def test_what_cannot_be_cancelled_now_is_cancelled_when_slurm_is_back(
    fresh_slurm: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "CANCEL_WITHIN_S", 3.0)
    with made() as it:
        it.cluster.add_container(tag="wide", cpus=4, memory="400M")
        it.cluster.add_workers(2, "wide")
        it.wait_for("worker-joined")
        processes.end(daemons.running_daemons(fresh_slurm.paths, "slurmctld"), 10)
    assert workers_of(tmp_path) == []  # the one that ran was told by its scheduler
    daemons.start_controller(fresh_slurm.paths, fresh_slurm.full_env)
    eventually(lambda: not fresh_slurm.living(), lambda: f"{fresh_slurm.living()} to be gone")
