"""``ScalableSession`` with a kubernetes target: the same workflow as anywhere, through the relay, with few rights."""

from __future__ import annotations

import time

import pytest

from tests.helpers.kubernetes.helpers import SMALL, WITHIN_S, Namespace, Project, shown
from tests.helpers.waiting import eventually

SECRET = "hunter2-and-more"


@pytest.mark.journey
def test_a_workflow_runs_as_anywhere_and_leaves_a_record_and_nothing_else(kube: Namespace, project: Project) -> None:
    kube.create("Secret", "greetings", stringData={"english": SECRET})
    session = project.session(
        project.target(env={"GREETING": {"secret": "greetings", "key": "english"}}, max_workers=2),
        components={"demeter": SMALL, "xanthos": SMALL},
        tasks={"answer": {"component": "xanthos", "run": "model:answer", "arguments": {"x": 20}}},
    )
    with session as client:
        number, greeting, pod = session.run_tasks()["answer"]
        assert (number, greeting, pod in kube.workers()) == (21, len(SECRET), True)
        assert client.submit(sum, [1, 2], tag="demeter").result(WITHIN_S) == 3
        assert sum(client.submit(bytes, 20_000_000, tag="demeter").result(WITHIN_S)) == 0  # much of it, by the relay
        (relay,) = kube.pods("scalable/part=relay")
        assert relay["spec"]["nodeName"] not in kube.nodes("steady")
        owners = {pod["metadata"]["ownerReferences"][0]["kind"] for pod in kube.pods()}
        assert owners == {"ConfigMap"}
        session.scale({"demeter": 2, "xanthos": 0})
        eventually(lambda: [client.worker_count(tag) for tag in ("demeter", "xanthos")] == [2, 0], lambda: "the scale")
    assert kube.left() == []
    assert [record["status"] for record in project.journal("ended")] == ["ok"]
    files = [file for file in (project.folder / ".scalable").rglob("*") if file.is_file()]
    texts = {file: file.read_text(errors="replace") for file in files}
    assert not [file for file, text in texts.items() if SECRET in text or "PRIVATE KEY" in text]
    logs = [text for file, text in texts.items() if file.parent.name == "logs"]
    assert len(logs) == 3
    assert all("connected to" in text for text in logs), shown(logs)


def test_workers_and_their_nodes_come_with_work_and_go_without(kube: Namespace, project: Project) -> None:
    session = project.session(
        project.target("burst", adaptive={"minimum": 0, "maximum": 2}),
        components={"demeter": {**SMALL, "cpus": 3}},
        policies={"scaling": {"cooldown": "0s", "idle": "1s"}},
    )

    def slowly(x: int) -> int:
        time.sleep(1)
        return x

    with session as client:
        assert kube.nodes("burst") == []
        for _ in range(2):  # two rounds of work, and nothing paid between them
            futures = client.map(slowly, range(6), tag="demeter")
            assert client.gather(futures) == list(range(6))
            del futures
            eventually(lambda: not kube.nodes("burst"), lambda: f"{kube.nodes('burst')} to go; {kube.workers()}")
    reasons = {record["reason"] for record in project.journal("worker-pending")}
    assert any("autoscaler adds a node" in reason for reason in reasons), reasons


def test_two_pools_serve_one_session_at_once(kube: Namespace, project: Project) -> None:
    machine = {"cpu": 4, "memory": "8GiB"}
    large = {"cpu": 16, "memory": "64GiB", "allocatable": {"cpu": 15.6, "memory": "60GiB"}}
    session = project.session(
        {**project.target(max_workers=2), "node_selector": {}},
        nodes={"small": machine, "large": large},
        pools={
            "burst": {"node": "small", "min": 0, "max": 3, "labels": {"pool": "burst"}},
            "ftf": {"node": "large", "min": 0, "max": 6, "labels": {"pool": "ftf"}},
        },
        components={"little": SMALL, "big": {**SMALL, "cpus": 8}},
    )
    with session as client:
        futures = [client.submit(sum, [1, 2], tag=tag) for tag in ("little", "big")]
        assert client.gather(futures) == [3, 3]
        where = {pod["metadata"]["labels"]["scalable/tag"]: pod["spec"]["nodeName"] for pod in kube.workers().values()}
        assert {tag: node.rpartition("-")[0] for tag, node in where.items()} == {"little": "burst", "big": "ftf"}
    assert kube.left() == []
