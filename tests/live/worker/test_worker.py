"""One worker by itself: its command line, its exits, its notice, its figures."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Scheduler, get_worker
from distributed.core import Status

from scalable import ScalableClient
from scalable.cluster.base import ClusterHandle, DeploymentSpec, WorkerTemplate
from scalable.cluster.local import LocalProvider
from scalable.manifest.targets import LocalTarget
from scalable.planning.resources import ScalePlan
from scalable.worker.main import TellingWorker, leave
from scalable.worker.options import CANNOT_CONNECT, CANNOT_START, WorkerOptions
from scalable.worker.runners import Runners
from tests.helpers.runner import work
from tests.helpers.waiting import LONG_S, until


def a_worker(options: WorkerOptions) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scalable.worker", *options.arguments()]
    return subprocess.run(command, capture_output=True, text=True, timeout=LONG_S, check=False)


def nobody() -> str:
    """An address where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


def test_a_worker_that_cannot_reach_its_scheduler_ends_with_a_sentence() -> None:
    address = nobody()
    ended = a_worker(WorkerOptions(address, "lonely", {"a": 1}, connect_within=1))
    assert ended.returncode == CANNOT_CONNECT
    assert f"scalable worker: cannot reach the scheduler at {address}" in ended.stdout
    assert "Traceback" not in ended.stdout


def test_a_worker_that_has_notice_while_it_looks_for_its_scheduler_goes_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = WorkerOptions(f"tcp://127.0.0.1:{silent.getsockname()[1]}", "early", {"a": 1}, connect_within=600)
        command = [sys.executable, "-m", "scalable.worker", *options.arguments()]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            silent.settimeout(LONG_S)
            silent.accept()[0].close()
            worker.terminate()
            try:
                said = worker.communicate(timeout=LONG_S)[0]
            finally:
                worker.kill()
    assert worker.returncode == 0
    assert "scalable worker: had notice before it was connected" in said


def test_a_worker_whose_surroundings_are_wrong_ends_with_a_sentence(tmp_path: Path) -> None:
    script = tmp_path / "ready.py"
    script.write_text("import no_such_module_anywhere")
    ended = a_worker(WorkerOptions(nobody(), "wrong", {"a": 1}, preload=str(script), connect_within=1))
    assert ended.returncode == CANNOT_START
    said = [line for line in ended.stdout.splitlines() if "scalable worker: cannot start" in line]
    assert "No module named 'no_such_module_anywhere'" in said[0]


def test_a_worker_does_not_outlive_a_parent_that_is_gone_before_it_begins() -> None:
    began = time.monotonic()
    ended = a_worker(WorkerOptions(nobody(), "orphan", {"a": 1}, parent=os.getppid()))
    assert ended.returncode == 1
    assert time.monotonic() - began < LONG_S / 2


def test_a_worker_whose_connections_close_while_it_hands_over_goes_all_the_same() -> None:
    async def have_notice() -> None:
        runners = Runners()
        async with (
            Scheduler(dashboard=False, dashboard_address="127.0.0.1:0", host="127.0.0.1", port=0) as scheduler,
            TellingWorker(scheduler.address, plugins=(runners,), dashboard=False, nthreads=1) as worker,
        ):
            await worker.rpc.close()  # as the first steps of its own closing do, when the scheduler asks for that
            await leave(worker, runners, grace=LONG_S)
            assert worker.status is Status.closed

    asyncio.run(asyncio.wait_for(have_notice(), LONG_S))


class TestOnACluster:
    @pytest.fixture(scope="class")
    @classmethod
    def handle(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterHandle]:
        target = LocalTarget(provider="local", processes=True, max_workers=2)
        folder = str(tmp_path_factory.mktemp("run"))
        spec = DeploymentSpec("worker", "here", target, {"demeter": WorkerTemplate("demeter")}, run_folder=folder)
        handle = LocalProvider().build_cluster(spec)
        LocalProvider().scale(handle, ScalePlan({"demeter": 1}))
        yield handle
        handle.backend.close()

    @pytest.fixture
    def client(self, handle: ClusterHandle) -> Iterator[ScalableClient]:
        with handle.client_factory() as client:
            yield client

    def test_only_this_machine_reaches_a_cluster_without_certificates(self, handle: ClusterHandle) -> None:
        scheduler = handle.backend.scheduler
        for address in (scheduler.address, *scheduler.workers):
            port = int(address.rpartition(":")[2])
            socket.create_connection(("127.0.0.1", port), LONG_S).close()
            with pytest.raises(ConnectionRefusedError):  # who listens everywhere listens here, too
                socket.create_connection(("127.0.0.2", port), LONG_S).close()
        assert scheduler.workers

    def test_nobody_reads_of_tasks_in_a_browser_unless_that_is_asked_for(self, handle: ClusterHandle) -> None:
        place = f"http://127.0.0.1:{handle.backend.scheduler.http_server.port}"
        urllib.request.urlopen(f"{place}/health", timeout=LONG_S).close()
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            urllib.request.urlopen(f"{place}/info/main/workers.html", timeout=LONG_S)
        refused.value.close()

    def test_on_notice_it_finishes_its_task_hands_over_and_goes(
        self, handle: ClusterHandle, client: ScalableClient, tmp_path: Path
    ) -> None:
        def take_notice(number: int) -> str:
            with (tmp_path / "calls").open("a") as calls:
                calls.write("x")
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
            return str(get_worker().name)

        heard: list[tuple[str, dict[str, object]]] = []
        handle.backend.listeners.append(lambda kind, facts: heard.append((kind, facts)))
        before = client.submit(lambda: str(get_worker().name), tag="demeter", pure=False)
        name = before.result()
        assert client.submit(take_notice, 1, tag="demeter").result(timeout=LONG_S) == name
        assert until(lambda: "worker-lost" in {kind for kind, _ in heard})
        lost = next(facts for kind, facts in heard if kind == "worker-lost")
        assert (lost["worker"], lost["cause"]) == (name, "preempted")
        assert (tmp_path / "calls").read_text() == "x", "it was done once"
        assert "worker-leaving" in {kind for kind, _ in heard}
        assert until(lambda: client.worker_count("demeter") == 1), "another one takes its place"

    def test_the_memory_peak_of_each_task_is_its_own(self, handle: ClusterHandle, client: ScalableClient) -> None:
        peaks: dict[str, int] = {}

        def heard(kind: str, facts: dict[str, object]) -> None:
            if kind == "peaks":
                found = facts["peaks"]
                assert isinstance(found, dict)
                peaks.update(found)

        handle.backend.listeners.append(heard)
        large = client.submit(lambda: len(bytes(1) * 200_000_000), tag="demeter")
        large.result(timeout=LONG_S)
        small = client.submit(lambda: 1, tag="demeter", pure=False)
        small.result(timeout=LONG_S)
        assert until(lambda: {str(large.key), str(small.key)} <= set(peaks))
        assert peaks[str(large.key)] - peaks[str(small.key)] > 150_000_000

    def test_the_memory_peak_of_a_task_has_the_programs_that_it_calls_in_it(
        self, handle: ClusterHandle, client: ScalableClient
    ) -> None:
        peaks: dict[str, int] = {}

        def heard(kind: str, facts: dict[str, Any]) -> None:
            if kind == "peaks":
                peaks.update(facts["peaks"])

        handle.backend.listeners.append(heard)
        calls = {
            "plain": client.submit(work.call_program, 200, 1.0, tag="demeter"),
            "guarded": client.submit(work.call_program, 200, 1.0, tag="demeter", guarded=True),
            "short": client.submit(work.call_program, 300, 0.0, tag="demeter"),
        }
        assert client.gather(list(calls.values())) == [0, 0, 0]
        assert until(lambda: {str(future.key) for future in calls.values()} <= set(peaks))
        size = {name: peaks[str(future.key)] // 2**20 for name, future in calls.items()}
        assert size["plain"] > 250, "the worker's own process with the program"
        assert 200 < size["guarded"] < 300, "the runner with the program, and not the worker"
        assert size["short"] > 350

    def test_a_child_that_a_task_left_behind_ends_with_its_worker(
        self, handle: ClusterHandle, client: ScalableClient
    ) -> None:
        def start_child() -> tuple[int, int]:
            child = subprocess.Popen(["sleep", "600"], start_new_session=True)
            return os.getpid(), child.pid

        _, child = client.submit(start_child, tag="demeter", pure=False).result(timeout=LONG_S)
        assert Path(f"/proc/{child}").exists()
        handle.backend.remove_workers(1, "demeter")
        assert until(lambda: not Path(f"/proc/{child}").exists())
        handle.backend.add_workers(1, "demeter")
