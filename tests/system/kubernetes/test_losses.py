"""Workers that are lost while they work: the cluster's cause is told, the work goes on, and notice costs no retry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalable.cli.main import main
from scalable.cluster.client import WorkerKilledError
from scalable.engine.events import Loss
from tests.helpers.kubernetes.helpers import SMALL, WITHIN_S, Namespace, Project
from tests.helpers.kubernetes.work import at_work, hoarding, with_hungry_task, with_long_task
from tests.helpers.waiting import eventually


def test_work_of_a_crashed_node_goes_on_on_another(kube: Namespace, project: Project) -> None:
    session = with_long_task(project, "fragile")
    with session:
        with at_work(project, session) as pod:
            node = kube.workers()[pod]["spec"]["nodeName"]
            kube.crash(node)
            eventually(lambda: len(project.running()) == 2, lambda: f"the task to run again: {kube.workers()}")
            (other,) = set(project.running()) - {pod}
            assert kube.workers()[other]["spec"]["nodeName"] != node
        lost = loss(project)
        assert lost["cause"] in (Loss.NODE_LOST.value, Loss.WORKER_LOST.value)
        kube.restore()
    eventually(lambda: kube.left() == [], lambda: f"{kube.left()} to be gone")


def test_an_evicted_worker_may_finish_what_it_does_and_it_costs_no_retry(kube: Namespace, project: Project) -> None:
    session = with_long_task(project, policies={"retry": {"times": 0}})
    with session:
        with at_work(project, session) as pod:
            kube.admin.evict(pod, kube.name)
            eventually(lambda: project.journal("worker-leaving"), lambda: "the notice to arrive")
        assert project.running() == [pod], "it had the time to finish"
        eventually(lambda: "evicted" in gone(project), lambda: f"its reason, not {gone(project)!r}")
    assert project.journal("retry") == []


def test_a_preempted_worker_hands_over_and_its_successor_waits_with_the_schedulers_reason(
    kube: Namespace, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    kube.admin.delete("PriorityClass", "urgent")
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
    kube.admin.create({**urgent, "value": 1000})
    session = with_long_task(project, components={"demeter": {**SMALL, "cpus": 3}}, policies={"retry": {"times": 0}})
    with session:
        with at_work(project, session) as pod:
            for name in ("first", "second"):  # each takes a node; one of them the worker's
                size = {"resources": {"requests": {"cpu": "3"}}}
                kube.pod(name, "steady", "sleep", "infinity", container=size, priorityClassName="urgent")
            eventually(lambda: pod not in kube.workers(), lambda: f"{pod} to give way")
            wanted = ("1 pending", "Insufficient cpu")
            eventually(lambda: all(one in status(capsys) for one in wanted), lambda: f"{wanted} in {status(capsys)}")
            kube.admin.delete("Pod", "first", kube.name)
            eventually(lambda: len(project.running()) == 2, lambda: f"the task to run again: {kube.workers()}")
        assert "gave way to a pod of higher priority" in gone(project)
    assert project.journal("retry") == []


def test_a_worker_over_its_memory_is_killed_by_the_kernel_and_said_to_be(kube: Namespace, project: Project) -> None:
    session = project.session(
        project.target(max_workers=1), components={"demeter": SMALL}, policies={"retry": {"times": 0}}
    )

    with session as client:
        with pytest.raises(WorkerKilledError, match="out of memory"):
            client.submit(hoarding(), tag="demeter").result(WITHIN_S)
        lost = loss(project)
        assert (lost["cause"], "OOMKilled" in lost["detail"]) == (Loss.OUT_OF_MEMORY.value, True), lost
        assert client.submit(sum, [1, 2], tag="demeter").result(WITHIN_S) == 3


def test_a_run_out_of_memory_climbs_to_the_larger_kind_of_worker(kube: Namespace, project: Project) -> None:
    session = with_hungry_task(project)
    with session:
        session.run_tasks()
    ends = [(record["tag"], record["outcome"]) for record in project.journal("attempt-ended")]
    assert ends == [("small", Loss.OUT_OF_MEMORY.value), ("large", "finished")]
    assert len(project.journal("retry")) == 1


def loss(project: Project) -> dict[str, Any]:
    """Of the only worker that was lost."""
    eventually(lambda: project.journal("worker-lost"), lambda: "the loss to be told")
    (lost,) = project.journal("worker-lost")
    return lost


def gone(project: Project) -> str:
    """Why the first worker that was sent away went; empty before."""
    return next((record["reason"] for record in project.journal("worker-removed")), "")


def status(capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["status"]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_logs_of_pods_that_are_gone_are_kept(kube: Namespace, project: Project) -> None:
    session = project.session(project.target(max_workers=1), components={"demeter": SMALL})
    with session as client:
        assert client.submit(print, "was here", tag="demeter").result(WITHIN_S) is None
        (pod,) = kube.workers()
        kube.admin.delete("Pod", pod, kube.name, gracePeriodSeconds=0)
        eventually(lambda: project.journal("worker-lost"), lambda: "the worker to be missed")
    texts = [file.read_text() for file in Path(project.folder / ".scalable/runs").rglob("logs/*")]
    assert any("was here" in text for text in texts), texts
