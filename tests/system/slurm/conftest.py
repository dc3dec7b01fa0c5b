"""A real Slurm and a real Apptainer for the tests in this folder; each pytest worker has its own cluster.

``slurm`` is shared by a worker's tests and idle again after each. ``fresh_slurm`` is for tests that crash nodes or
need other settings. ``apptainer`` and ``sif`` are a program that is on PATH and an image. Where a system package is
missing, the tests are skipped with the command that installs it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalable.cluster.slurm import jobs, launcher
from tests.helpers.slurm.clusters import skip_without_slurm, use
from tests.tools.apptainer import build_image, get
from tests.tools.errors import ToolMissingError
from tests.tools.slurm import PrivateSlurm, Settings, running

QUICK = Settings(slurmd_timeout_s=3, extra=("MessageTimeout=3",))  # a lost node is noticed after 11 s instead of 28


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Slurm that serves nobody else is asked more often."""
    monkeypatch.setattr(launcher, "SOON_S", 0.2)
    monkeypatch.setattr(launcher, "OFTEN_S", 0.5)
    monkeypatch.setattr(launcher, "SELDOM_S", 3.0)
    monkeypatch.setattr(jobs, "AGAIN_S", 0.2)


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


@pytest.fixture
def fresh_slurm(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PrivateSlurm]:
    """A cluster for one test; ``parametrize("fresh_slurm", [Settings(…)], indirect=True)`` gives it other settings."""
    skip_without_slurm()
    with running(tmp_path_factory.mktemp("slurm"), getattr(request, "param", QUICK)) as slurm:
        use(slurm, monkeypatch)
        yield slurm


@pytest.fixture(scope="session")
def apptainer_program() -> Path:
    try:
        return get()
    except ToolMissingError as error:
        pytest.skip(str(error))


@pytest.fixture
def apptainer(apptainer_program: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working apptainer, first on PATH, so that jobs find it, too."""
    monkeypatch.setenv("PATH", f"{apptainer_program.parent}{os.pathsep}{os.environ['PATH']}")
    return apptainer_program


@pytest.fixture(scope="session")
def sif(apptainer_program: Path) -> Path:
    """An image with shell, small tools and C library; mount ``environment_folders()`` to have Python in it."""
    return build_image(apptainer_program)
