"""A real Slurm and a real Apptainer for the tests in this folder; each pytest worker has its own cluster.

``slurm`` is shared by a worker's tests and idle again after each. ``fresh_slurm`` is for tests that crash nodes or
need other settings. ``apptainer`` and ``sif`` are a program that is on PATH and an image. Where a system package is
missing, the tests are skipped with the command that installs it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.tools import system
from tests.tools.errors import ToolMissingError
from tests.tools.slurm import PrivateSlurm, running


@pytest.fixture(scope="session")
def shared_slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateSlurm]:
    skip_without_slurm()
    with running(tmp_path_factory.mktemp("slurm")) as slurm:
        yield slurm


@pytest.fixture
def slurm(shared_slurm: PrivateSlurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateSlurm]:
    """The worker's cluster of 4 nodes with 4 CPUs and 4000 MB each; this process's Slurm for the test."""
    use(shared_slurm, monkeypatch)
    yield shared_slurm
    shared_slurm.reset()


def skip_without_slurm() -> None:
    try:
        system.require(system.SLURM_PROGRAMS)
    except ToolMissingError as error:
        pytest.skip(str(error))


def use(slurm: PrivateSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a cluster the one that Slurm's commands and libraries of this process talk to, and no other."""
    for name in set(os.environ) - set(slurm.full_env):
        monkeypatch.delenv(name)
    for name, value in slurm.env.items():
        monkeypatch.setenv(name, value)
