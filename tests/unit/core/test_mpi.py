"""Command lines of programs of several processes, and what is said of those that fail."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import scalable
from scalable import mpi
from scalable.mpi import MpiError, MpiSize, NodeMemoryError


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No launcher, no batch job and no component of several processes."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in (mpi.NODES, mpi.TASKS_PER_NODE, mpi.CPUS, mpi.RUNNER_MARK, "SLURM_JOB_ID", "SLURM_JOB_NUM_NODES"):
        monkeypatch.delenv(name, raising=False)


def installed(folder: Path, name: str) -> None:
    program = folder / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)


def sized(monkeypatch: pytest.MonkeyPatch, size: MpiSize) -> None:
    for name, value in size.variables.items():
        monkeypatch.setenv(name, value)


def test_the_module_is_part_of_the_package() -> None:
    assert scalable.mpi is mpi


def test_an_ordinary_worker_runs_the_plain_command() -> None:
    assert MpiSize().variables == {} and mpi.size() == MpiSize()
    assert mpi.command(["model", Path("a.nc")]) == ["model", "a.nc"]


def test_inside_a_slurm_job_the_launcher_is_srun_with_the_size_and_a_name_to_be_found_by(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed(tmp_path, "srun")
    sized(monkeypatch, MpiSize(4, 32, 2))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "4")
    monkeypatch.setenv(mpi.RUNNER_MARK, "abc")
    line = mpi.command(["model", "x"], options=["--mpi=pmix"])
    assert line[0] == "srun" and line[-3:] == ["--mpi=pmix", "model", "x"]
    assert {"--overlap", "--nodes=4", "--ntasks=128", "--ntasks-per-node=32", "--cpus-per-task=2"} <= set(line)
    assert "--job-name=scalable-abc" in line


def test_a_slurm_job_with_fewer_nodes_is_not_the_worker_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A driver in a batch job of one node, with workers of its own machine."""
    installed(tmp_path, "srun")
    installed(tmp_path, "mpirun")
    sized(monkeypatch, MpiSize(2, 2))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "1")
    assert mpi.command(["model"]) == ["mpirun", "-n", "4", "model"]


@pytest.mark.parametrize("launcher", ["mpirun", "mpiexec"])
def test_elsewhere_the_launcher_is_that_of_an_mpi(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, launcher: str
) -> None:
    installed(tmp_path, launcher)
    sized(monkeypatch, MpiSize(1, 8))
    assert mpi.command(["model"]) == [launcher, "-n", "8", "model"]


def test_several_processes_without_a_launcher_are_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    sized(monkeypatch, MpiSize(2, 4))
    with pytest.raises(MpiError, match=r"model is to run as 8 processes.*mpirun.*install an MPI"):
        mpi.command(["model"])


@pytest.mark.parametrize("wrong", ["model --input x", [], ()])
def test_what_is_no_command_is_refused(wrong: list[str]) -> None:
    with pytest.raises(MpiError, match="write a list"):
        mpi.command(wrong)


def test_a_size_that_makes_no_sense_counts_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(mpi.NODES, "many")
    monkeypatch.setenv(mpi.TASKS_PER_NODE, "0")
    assert mpi.size() == MpiSize()


@pytest.mark.parametrize(
    ("status", "lines", "kind", "says"),
    [
        (7, ["x", "srun: error: n1: task 1: Exited with exit code 7"], MpiError, "rank 1 on n1: exited with exit code"),
        (139, ["srun: error: n2: task 3: Segmentation fault (core dumped)"], MpiError, "rank 3 on n2: segmentation"),
        (137, ["srun: error: n1: task 1: Killed"], NodeMemoryError, "rank 1 on n1 ran out of the node's memory"),
        (1, ["srun: error: n4: tasks 0-2: Out Of Memory"], NodeMemoryError, "rank 0-2 on n4 ran out"),
        (
            1,
            [
                "slurmstepd-n2: error: Detected 1 oom_kill event in StepId=5.1. Some of the step tasks",
                "srun: error: n1: task 0: Terminated",
                "srun: error: n2: task 1: Out Of Memory",
            ],
            NodeMemoryError,
            "rank 1 on n2 ran out",
        ),
        (
            15,
            ["slurmstepd-n3: error: Step 9.0 exceeded memory limit (500 > 200), being killed"],
            NodeMemoryError,
            "a rank on n3 ran out",
        ),
        (3, ["model: no such scenario"], MpiError, "ended with exit status 3: model: no such scenario"),
        (3, [], MpiError, "ended with exit status 3"),
    ],
)
def test_a_failure_names_the_rank_and_its_node(status: int, lines: list[str], kind: type, says: str) -> None:
    error = mpi.failure("model", status, lines)
    assert type(error) is kind
    assert says in str(error)
    assert str(error).startswith("model")


def test_memory_of_a_node_is_that_of_its_ranks() -> None:
    assert mpi.on_a_node("100M|100M|1", 1) == 100 * 2**20
    assert mpi.on_a_node("300K|150K|4", 2) == 400 * 2**10, "300 and, of the other three, 100 each"
    assert mpi.on_a_node("", 2) == 0


def test_the_examples_in_its_text_are_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi, "run", lambda arguments: None)
    assert doctest.testmod(mpi).failed == 0
