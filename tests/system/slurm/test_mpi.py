"""Programs of several processes on a real Slurm: over two nodes, measured, killed everywhere, and short of memory."""

from __future__ import annotations

import os
import random
import signal
import string
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalable import TaskError
from scalable.engine.events import JobCancelled
from tests.helpers.settings import remove_settings
from tests.helpers.slurm.helpers import WITHIN_S, workers_of
from tests.helpers.slurm.mpi import MpiProject
from tests.helpers.waiting import eventually
from tests.tools.slurm import MemoryRule, PrivateSlurm, Settings, why_no_cgroup

BY_KERNEL = Settings(
    nodes=2,
    memory=MemoryRule.CGROUP,
    prefix="".join(random.choices(string.ascii_lowercase, k=8)),  # the kernel's tree is shared with other clusters
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MpiProject:
    monkeypatch.chdir(tmp_path)
    remove_settings(monkeypatch)
    return MpiProject(tmp_path)


@pytest.mark.journey
def test_a_task_runs_once_and_its_program_on_all_nodes_of_its_job(slurm: PrivateSlurm, project: MpiProject) -> None:
    session = project.session("measured")
    plan = session.plan()
    assert plan.scale_plan.resources_by_tag["model"].cpus == 4
    assert plan.cost_estimate is not None and plan.cost_estimate.total_hourly == pytest.approx(4.0)
    with session:
        found = session.run_tasks()["job"]
    assert len(found) == 4
    nodes = {name.split("-")[2] for name in found}
    assert len(nodes) == 2
    assert {name.split("-")[3:] == ["4", "1"] for name in found} == {True}, "four ranks of one thread each"
    [ended] = project.journal("attempt-ended")
    assert ended["outcome"] == "finished"
    assert ended["peak"] > 2 * 60 * 2**20, "what both ranks of a node use"
    assert len(project.journal("worker-started")) == 1


def test_a_task_that_is_killed_leaves_no_rank_on_any_node(slurm: PrivateSlurm, project: MpiProject) -> None:
    session = project.session("ranks", what="stay")
    with session:
        ended = in_background(session.run_tasks)
        eventually(lambda: len(project.ranks()) == 4, lambda: f"ranks: {project.ranks()}", WITHIN_S)
        driver = session.live()

        async def kill() -> None:
            driver.handle(JobCancelled("job", "not wanted"))

        driver.cluster.sync(kill)
        [error] = ended()
        assert isinstance(error, TaskError)
        assert project.ranks() == [], "gone before the end is told"
        [member] = driver.cluster.members.values()
        assert member.address is not None, "the worker lives on"


def test_a_worker_that_dies_takes_its_ranks_along_on_all_nodes(slurm: PrivateSlurm, project: MpiProject) -> None:
    session = project.session("ranks", what="stay")
    with session:
        ended = in_background(session.run_tasks)
        eventually(lambda: len(project.ranks()) == 4, lambda: f"ranks: {project.ranks()}", WITHIN_S)
        [worker] = workers_of(project.folder)
        os.kill(worker, signal.SIGKILL)
        [error] = ended()
        assert isinstance(error, TaskError) and "worker lost" in str(error)
        eventually(lambda: project.ranks() == [], lambda: f"left: {project.ranks()}", WITHIN_S)


def test_a_rank_that_is_out_of_memory_is_named_with_its_node(slurm: PrivateSlurm, project: MpiProject) -> None:
    session = project.session("ranks", what="grow")
    with session, pytest.raises(TaskError) as error:
        session.run_tasks()
    found = {path.name.split("-")[1]: path.name.split("-")[2] for path in project.told.glob("rank-*")}
    assert "out of memory" in str(error.value)
    assert f"on {found['3']} ran out of the node's memory" in str(error.value)
    eventually(lambda: project.ranks() == [], lambda: f"left: {project.ranks()}", WITHIN_S)


@pytest.mark.skipif(bool(why_no_cgroup()), reason=str(why_no_cgroup()))
@pytest.mark.parametrize("fresh_slurm", [BY_KERNEL], indirect=True)
def test_a_rank_that_the_kernel_kills_is_named_with_its_node(fresh_slurm: PrivateSlurm, project: MpiProject) -> None:
    """As on most sites: srun says no more than that it was killed."""
    session = project.session("ranks", what="grow")
    with session, pytest.raises(TaskError) as error:
        session.run_tasks()
    found = {path.name.split("-")[1]: path.name.split("-")[2] for path in project.told.glob("rank-*")}
    assert f"rank 3 on {found['3']} ran out of the node's memory of 477 MiB" in str(error.value)


def test_a_rank_that_fails_is_named_and_ends_the_others(slurm: PrivateSlurm, project: MpiProject) -> None:
    session = project.session("ranks", what="fail")
    with session, pytest.raises(TaskError) as error:
        session.run_tasks()
    found = {path.name.split("-")[1]: path.name.split("-")[2] for path in project.told.glob("rank-*")}
    assert f"rank 2 on {found['2']}: exited with exit code 9" in str(error.value)
    eventually(lambda: project.ranks() == [], lambda: f"left: {project.ranks()}", WITHIN_S)


def in_background(function: Callable[[], Any]) -> Callable[[], list[BaseException]]:
    """Call it in a thread; what is returned waits for its end and gives the error, if there was one."""
    errors: list[BaseException] = []

    def call() -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - told to whoever waits
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()

    def wait() -> list[BaseException]:
        thread.join(WITHIN_S)
        assert not thread.is_alive()
        return errors

    return wait
