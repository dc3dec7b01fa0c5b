"""Workers as pods: what is created, what is said of them, and that nothing stays."""

from __future__ import annotations

import asyncio
import base64
import copy
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from scalable.cluster.base import LaunchRefused
from scalable.cluster.kubernetes import launcher as launching
from scalable.cluster.kubernetes import pods
from scalable.cluster.kubernetes.api import Cluster, Listing
from scalable.cluster.kubernetes.launcher import KubernetesLauncher
from scalable.cluster.kubernetes.pods import WorkerPod
from scalable.engine.events import Loss
from scalable.quantities import Memory
from scalable.worker.options import CANNOT_START
from tests.helpers.cluster.kubernetes.launched import SCHEDULER, SITE, launched
from tests.helpers.cluster.kubernetes.server import NAMESPACE, Server, a_server
from tests.helpers.waiting import LONG_S

FORBIDDEN = 'pods is forbidden: User "me" cannot create resource "pods" in API group "" in the namespace "work"'

QUOTA = (
    'pods "p" is forbidden: exceeded quota: team, requested: limits.cpu=2, used: limits.cpu=3, limited: limits.cpu=4'
)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, LONG_S))


@asynccontextmanager
async def a_launcher(folder: Path | None = None) -> AsyncIterator[tuple[Server, KubernetesLauncher]]:
    async with a_server() as server:
        one = KubernetesLauncher(
            Cluster(NAMESPACE, url=server.url),
            SITE,
            handout={"ca.pem": b"for all"},
            run_folder=str(folder or "") or None,
        )
        one.kube.patience = 3.0
        try:
            yield server, one
        finally:
            server.pods_end_at_once = True
            await one.close()


async def until(launcher: KubernetesLauncher, condition: Any) -> None:
    """The launcher is polled as a cluster does it."""
    while not condition():
        await launcher.poll(list(launcher.workers.values()))
        await asyncio.sleep(0.02)


def terminated(code: int, reason: str = "Error", message: str = "") -> list[dict[str, Any]]:
    end = {"exitCode": code, "reason": reason} | ({"message": message} if message else {})
    return [{"name": "worker", "state": {"terminated": end}}]


def test_the_first_worker_brings_a_parent_that_owns_everything() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            await launched(launcher, "small-0", "small-1")
            assert server.names("configmaps") == server.names("secrets") == ["scalable-r1"]
            assert server.names("pods") == ["scalable-r1-small-0", "scalable-r1-small-1"]
            owner = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": "scalable-r1",
                "uid": "uid-configmaps-scalable-r1",
            }
            owned = [one for (kind, _), one in server.objects.items() if kind != "configmaps"]
            assert [one["metadata"]["ownerReferences"] for one in owned] == [[owner]] * 3
            secret = server.objects["secrets", "scalable-r1"]["data"]
            assert base64.b64decode(secret["ca.pem"]) == b"for all"

    run(scene())


def test_workers_are_told_where_the_scheduler_is_and_leave_memory_to_the_pod() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            await launched(launcher, "small-0")
            container = server.objects["pods", "scalable-r1-small-0"]["spec"]["containers"][0]
            line = container["command"]
            assert SCHEDULER in line
            assert "--name=small-0" in line
            [memory] = [int(one.removeprefix("--memory=")) for one in line if one.startswith("--memory=")]
            assert container["resources"]["limits"]["memory"] == "2048Mi"
            assert memory < 2 * 2**30

    run(scene())


def test_one_watch_on_pods_and_one_on_events_serve_all_workers() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            workers = await launched(launcher, *(f"small-{number}" for number in range(20)))
            for worker in workers:
                server.change("pods", worker.name, phase="Running")
            await until(launcher, lambda: not any(worker.waits for worker in workers))
            watches = [one.path.rpartition("/")[2] for one in server.requests if one.watches]
            assert sorted(watches) == ["events", "pods"]
            assert server.asked("GET", "/pods/scalable-r1-small-") == []

    run(scene())


@pytest.mark.parametrize(
    ("reason", "message", "definite", "words"),
    [
        ("Forbidden", FORBIDDEN, True, "me may not create pods in the namespace work"),
        ("Forbidden", QUOTA, False, "the quota team is used up"),
    ],
)
def test_a_refusal_has_the_clusters_reason(reason: str, message: str, definite: bool, words: str) -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            server.fail("POST", "/pods", 403, reason=reason, message=message)
            with pytest.raises(LaunchRefused, match=words) as refusal:
                await launched(launcher, "small-0")
            assert refusal.value.definite is definite

    run(scene())


def test_without_the_right_to_make_the_parent_nothing_is_made() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            text = FORBIDDEN.replace("pods", "configmaps")
            server.fail("POST", "/configmaps", 403, reason="Forbidden", message=text)
            with pytest.raises(LaunchRefused, match="may not create configmaps") as refusal:
                await launched(launcher, "small-0")
            assert refusal.value.definite
            assert server.objects == {}
            await launched(launcher, "small-0")  # it was given the right
            assert server.names("pods") == ["scalable-r1-small-0"]

    run(scene())


def test_without_the_right_to_watch_pods_it_is_named() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            text = FORBIDDEN.replace("create", "watch")
            server.fail("GET", "/pods", 403, reason="Forbidden", message=text, watches=True)
            with pytest.raises(LaunchRefused, match="me may not watch pods"):
                await launched(launcher, "small-0")
            assert server.names("pods") == []

    run(scene())


def test_a_pod_made_while_a_list_was_under_way_is_not_taken_for_gone() -> None:
    async def scene() -> None:
        async with a_launcher() as (_, launcher):
            before = time.monotonic()
            [worker] = await launched(launcher, "small-0")
            launcher.board.listed(Listing([], before))
            assert worker.name not in launcher.board.gone
            launcher.board.listed(Listing([], time.monotonic()))
            assert worker.name in launcher.board.gone

    run(scene())


def test_an_answer_that_was_under_way_does_not_undo_what_a_watch_has_told() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            [worker] = await launched(launcher, "small-0")
            late = copy.deepcopy(server.objects["pods", worker.name])
            server.change("pods", worker.name, phase="Running")
            await until(launcher, lambda: not worker.waits)
            launcher.board.seen(late)
            assert not worker.waits

    run(scene())


def test_a_secret_whose_creation_got_no_answer_is_not_made_twice() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            launcher.kube.patience = 0.0
            server.fail("POST", "/secrets", lost=True)
            with pytest.raises(LaunchRefused, match="no answer"):
                await launched(launcher, "small-0")
            await launched(launcher, "small-0")
            assert server.names("pods") == ["scalable-r1-small-0"]

    run(scene())


def test_a_pod_that_nobody_waits_for_any_more_is_deleted() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            await launched(launcher, "small-0")
            launcher.kube.patience = 0.0
            server.fail("POST", "/pods", lost=True)
            with pytest.raises(LaunchRefused, match="no answer") as refusal:
                await launched(launcher, "small-1")
            assert not refusal.value.definite
            await until(launcher, lambda: server.names("pods") == ["scalable-r1-small-0"])

    run(scene())


def test_a_pod_for_which_there_is_no_node_says_so_with_what_the_autoscaler_does() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            [worker] = await launched(launcher, "small-0")
            text = "0/2 nodes are available: 2 Insufficient cpu."
            unmet = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
            server.change("pods", worker.name, conditions=[unmet])
            await until(launcher, lambda: text in worker.waits)
            assert "autoscaler" not in worker.waits
            about = {"kind": "Pod", "name": worker.name}
            told = {"reason": "TriggeredScaleUp", "message": "pool compute 0->1", "involvedObject": about}
            server.add("events", {"metadata": {"name": "e1"}, **told})
            await until(launcher, lambda: "the autoscaler adds a node" in worker.waits)
            assert worker.fate is None

    run(scene())


def test_a_pod_that_was_killed_for_its_memory_says_so() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            [worker] = await launched(launcher, "small-0")
            server.change("pods", worker.name, phase="Failed", containerStatuses=terminated(137, "OOMKilled"))
            await until(launcher, lambda: worker.fate is not None)
            assert worker.fate is not None
            assert worker.fate.cause is Loss.OUT_OF_MEMORY
            assert worker.fate.peak == Memory.parse("2GiB")

    run(scene())


def test_the_last_words_come_from_the_log_where_the_cluster_does_not_repeat_them() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            [worker] = await launched(launcher, "small-0")
            server.logs[worker.name] = "scalable worker: cannot start: no licence\n"
            server.change("pods", worker.name, phase="Failed", containerStatuses=terminated(CANNOT_START))
            await until(launcher, lambda: worker.fate is not None)
            assert worker.fate is not None
            assert worker.fate.cause is Loss.CANNOT_START
            assert "no licence" in worker.fate.detail

    run(scene())


def test_a_pod_that_somebody_deleted_is_preempted_and_costs_no_retry() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            [worker] = await launched(launcher, "small-0")
            server.remove("pods", worker.name)
            fate = await worker.learn_fate(5.0)
            assert fate.cause is Loss.PREEMPTED
            assert "deleted by somebody" in fate.detail

    run(scene())


def test_a_worker_whose_node_is_gone_was_lost_with_it() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            [worker] = await launched(launcher, "small-0")
            server.objects["pods", worker.name]["spec"]["nodeName"] = "n1"
            server.change("pods", worker.name, phase="Running")
            fate = await worker.learn_fate(0.5)
            assert fate.cause is Loss.NODE_LOST

    run(scene())


def test_a_worker_whose_connection_broke_although_its_pod_runs_is_lost() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            [worker] = await launched(launcher, "small-0")
            server.change("pods", worker.name, phase="Running")
            await until(launcher, lambda: not worker.waits)
            fate = await worker.learn_fate(0.5)
            assert fate.cause is Loss.WORKER_LOST
            assert "is Running" in fate.detail

    run(scene())


def test_what_a_pod_prints_is_kept_on_this_machine(tmp_path: Path) -> None:
    async def scene() -> None:
        (tmp_path / "logs").mkdir()
        async with a_launcher(tmp_path) as (server, launcher):
            [worker] = await launched(launcher, "small-0")
            server.logs[worker.name] = "trial 1 of 30\n"
            running = [{"name": "worker", "state": {"running": {}}}]
            server.change("pods", worker.name, phase="Running", containerStatuses=running)
            assert worker.log is not None
            log = worker.log
            await until(launcher, lambda: log.exists() and "trial 1 of 30" in log.read_text())

    run(scene())


def test_of_a_pod_that_ended_at_once_the_log_is_kept_too(tmp_path: Path) -> None:
    async def scene() -> None:
        (tmp_path / "logs").mkdir()
        async with a_launcher(tmp_path) as (server, launcher):
            [worker] = await launched(launcher, "small-0")
            server.logs[worker.name] = "no licence\n"
            await worker.stop(gently=False)
            assert worker.log is not None
            assert worker.log.read_text() == "no licence\n"

    run(scene())


def test_a_pod_whose_log_cannot_be_kept_is_deleted_all_the_same(tmp_path: Path) -> None:
    async def scene() -> None:
        async with a_launcher(tmp_path / "no such folder") as (server, launcher):
            [worker] = await launched(launcher, "small-0")
            server.logs[worker.name] = "trial 1 of 30\n"
            await worker.stop()
            assert worker.ended
            assert server.names("pods") == []

    run(scene())


def test_a_worker_that_is_to_go_gets_its_time_and_one_that_is_dead_does_not() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            one, other = await launched(launcher, "small-0", "small-1")
            await one.stop()
            await other.stop(gently=False)
            graces = {
                one.path.rpartition("/")[2]: one.body.get("gracePeriodSeconds") for one in server.asked("DELETE", "")
            }
            assert graces == {one.name: None, other.name: pods.KILL_WITHIN_S}
            assert server.names("pods") == []

    run(scene())


async def on_a_node(server: Server, launcher: KubernetesLauncher) -> WorkerPod:
    """A worker that runs on the node n1, of which the launcher knows since when it is there."""
    [worker] = await launched(launcher, "small-0")
    server.add("nodes", {"metadata": {"name": "n1", "creationTimestamp": "2026-01-01T00:00:00Z"}})
    server.objects["pods", worker.name]["spec"]["nodeName"] = "n1"
    server.change("pods", worker.name, phase="Running")
    await until(launcher, lambda: [node.since for node in launcher.nodes()] == [1767225600.0])
    return worker


def test_nodes_are_known_with_their_pool_and_time() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            await on_a_node(server, launcher)
            [node] = launcher.nodes()
            assert (node.name, node.pool, node.until) == ("n1", "compute", None)
            assert launcher.node_of("small-0") == "n1"
            server.remove("nodes", "n1")
            launcher.board._looked = 0.0
            await until(launcher, lambda: launcher.nodes()[0].until is not None)

    run(scene())


def test_without_the_right_to_read_nodes_they_are_known_from_their_pods() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            [worker] = await launched(launcher, "small-0")
            server.fail("GET", "/nodes", 403, reason="Forbidden", times=99)
            server.objects["pods", worker.name]["spec"]["nodeName"] = "n1"
            server.change("pods", worker.name, phase="Running", startTime="2026-01-01T00:00:00Z")
            await until(launcher, lambda: len(launcher.nodes()) == 1)
            assert launcher.nodes()[0].since == 1767225600.0
            await worker.stop()
            await launcher.board.until(lambda: worker.name in launcher.board.gone, 5)
            launcher.board._looked = 0.0
            await until(launcher, lambda: launcher.nodes()[0].until is not None)

    run(scene())


def test_an_empty_node_is_still_paid_while_credentials_have_expired() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            worker = await on_a_node(server, launcher)
            await worker.stop()
            await launcher.board.until(lambda: worker.name in launcher.board.gone, 5)
            server.fail("GET", "/nodes", 401, reason="Unauthorized", times=2)
            launcher.board._looked = 0.0
            await launcher.board.look_at_nodes()
            assert [node.until for node in launcher.nodes()] == [None]

    run(scene())


def test_closing_deletes_the_parent_and_waits_until_no_pod_is_left() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            await launched(launcher, "small-0", "small-1")
            server.pods_end_at_once = False
            closing = asyncio.ensure_future(launcher.close())
            while len(server.asked("GET", "/pods$")) < 3:  # a list, a watch, and a look at what is left
                await asyncio.sleep(0.02)
            assert server.names("configmaps") == []
            assert not closing.done()
            for name in server.names("pods"):
                server.remove("pods", name)
            await closing
            assert server.objects == {}

    run(scene())


def test_pods_on_a_node_that_does_not_answer_are_deleted_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            await launched(launcher, "small-0")
            server.pods_end_at_once = False
            await launcher.close()
            assert server.objects == {}

    monkeypatch.setattr(launching, "FORCED_AFTER_S", 0.2)
    run(scene())


def test_what_could_not_be_deleted_is_said_and_left_to_the_reaper(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            await launched(launcher, "small-0")
            server.fail("DELETE", "/configmaps", 403, reason="Forbidden", message="may not delete")
            await launcher.close()
            while server.objects:  # the reaper's second try succeeds
                await asyncio.sleep(0.05)

    run(scene())
    assert "may not delete" in caplog.text


DRIVER = """
import asyncio, sys
from scalable.cluster.kubernetes.api import Cluster, Listing
from scalable.cluster.kubernetes.launcher import KubernetesLauncher
from tests.helpers.cluster.kubernetes.launched import SITE, launched
from tests.helpers.cluster.kubernetes.server import NAMESPACE

async def main():
    launcher = KubernetesLauncher(Cluster(NAMESPACE, url=sys.argv[1]), SITE)
    await launched(launcher, "small-0")
    print("there", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_after_a_driver_that_was_killed_nothing_is_left() -> None:
    async def scene() -> None:
        async with a_server() as server:
            driver = await asyncio.create_subprocess_exec(
                sys.executable, "-c", DRIVER, server.url, stdout=subprocess.PIPE
            )
            assert driver.stdout is not None
            assert await driver.stdout.readline() == b"there\n"
            assert server.names("pods") == ["scalable-r1-small-0"]
            driver.send_signal(signal.SIGKILL)
            await driver.wait()
            while server.objects:
                await asyncio.sleep(0.05)

    run(scene())
