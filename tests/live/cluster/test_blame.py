"""Who is blamed when a worker dies: the tasks it was doing, not those that waited there."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from distributed import get_worker

from scalable import ScalableClient
from scalable.cluster.base import DeploymentSpec, WorkerTemplate
from scalable.cluster.client import WorkerKilledError
from scalable.cluster.local import LocalProvider
from scalable.engine.events import Loss
from scalable.manifest.policies import Policies
from scalable.manifest.targets import LocalTarget
from scalable.manifest.work import Retry
from scalable.planning.resources import ScalePlan
from scalable.quantities import Memory
from scalable.worker.guarded import RunKilledError
from scalable.worker.meter import TaskNote, noted_tasks
from tests.helpers.waiting import until

LONG_S = 60.0


class TestOnAWorkerWithOneSlot:
    @pytest.fixture(scope="class")
    @classmethod
    def client(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScalableClient]:
        target = LocalTarget(provider="local", processes=True)
        folder = str(tmp_path_factory.mktemp("run"))
        spec = DeploymentSpec("blame", "here", target, {"demeter": WorkerTemplate("demeter")}, run_folder=folder)
        handle = LocalProvider().build_cluster(spec)
        LocalProvider().scale(handle, ScalePlan({"demeter": 1}))
        with handle.client_factory() as client:
            yield client
        handle.backend.close()

    def test_a_task_that_kills_at_once_is_given_up_alone(self, client: ScalableClient) -> None:
        def task(number: int) -> int:
            if number == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            return number

        futures = [client.submit(task, number, tag="demeter") for number in range(12)]
        with pytest.raises(WorkerKilledError, match="given up after 2 workers died of it"):
            futures[5].result(timeout=LONG_S)
        others = [future for number, future in enumerate(futures) if number != 5]
        assert client.gather(others) == [number for number in range(12) if number != 5]

    def test_a_task_that_cannot_be_read_is_given_up_and_not_the_one_that_was_running(
        self, client: ScalableClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Its module is known here and not on workers."""
        module = ModuleType("only_known_here")
        exec("def task(): return 1", module.__dict__)
        monkeypatch.setitem(sys.modules, "only_known_here", module)

        def wait() -> str:
            (tmp_path / "running").touch()
            time.sleep(1)
            return str(get_worker().name)

        running = client.submit(wait, tag="demeter")
        deadline = time.monotonic() + LONG_S
        while not (tmp_path / "running").exists():
            assert time.monotonic() < deadline, running
            time.sleep(0.01)
        with pytest.raises(WorkerKilledError, match="No module named 'only_known_here'"):
            client.submit(module.task, tag="demeter").result(timeout=LONG_S)
        assert running.result(timeout=LONG_S)


class TestOnAWorkerWithThreeSlots:
    """A crash takes the whole worker with it; only the task that crashed is to blame."""

    @pytest.fixture
    def client(self, tmp_path: Path) -> Iterator[ScalableClient]:
        target = LocalTarget(provider="local", processes=True)
        kinds = {"demeter": WorkerTemplate("demeter", slots=3)}
        policies = Policies(retry=Retry(times=0))
        spec = DeploymentSpec("blame", "here", target, kinds, policies, run_folder=str(tmp_path / "run"))
        handle = LocalProvider().build_cluster(spec)
        LocalProvider().scale(handle, ScalePlan({"demeter": 1}))
        with handle.client_factory() as client:
            yield client
        handle.backend.close()

    def test_a_task_that_crashes_is_named_with_the_signal_and_its_neighbours_run_again(
        self, client: ScalableClient, tmp_path: Path
    ) -> None:
        def neighbour(number: int) -> int:
            (tmp_path / f"neighbour-{number}").touch()
            while not (tmp_path / "go-on").exists():
                time.sleep(0.01)
            return number

        def crash() -> None:
            ctypes.string_at(0)

        neighbours = [client.submit(neighbour, number, tag="demeter") for number in range(2)]
        assert until(lambda: len(list(tmp_path.glob("neighbour-*"))) == 2)
        crashing = client.submit(crash, tag="demeter")
        with pytest.raises(
            WorkerKilledError, match=r"worker crashed \(crashed with SIGSEGV \(segmentation fault\)"
        ) as told:
            crashing.result(timeout=LONG_S)
        assert "in string_at (ctypes/__init__.py:" in str(told.value)
        assert f"task {crashing.key}" in str(told.value)
        (tmp_path / "go-on").touch()
        assert client.gather(neighbours) == [0, 1], "no retry is allowed, and none of them needed one"

    def test_a_guarded_task_that_crashes_harms_nobody(self, client: ScalableClient, tmp_path: Path) -> None:
        def neighbour() -> int:
            (tmp_path / "neighbour").touch()
            while not (tmp_path / "go-on").exists():
                time.sleep(0.01)
            return os.getpid()

        plain = client.submit(neighbour, tag="demeter")
        assert until(lambda: (tmp_path / "neighbour").exists())
        (before,) = client.run(os.getpid).values()
        with pytest.raises(RunKilledError, match="crashed with SIGSEGV"):
            client.submit(ctypes.string_at, 0, tag="demeter", guarded=True).result(timeout=LONG_S)
        (tmp_path / "go-on").touch()
        assert plain.result(timeout=LONG_S) == before


def test_a_task_that_runs_out_of_memory_is_not_tried_on_another_worker_of_its_size(tmp_path: Path) -> None:
    def eat(path: Path) -> int:
        with path.open("a") as file:
            file.write("x")
        held = []
        for _ in range(900):
            held.append(bytearray(b"x" * (1 << 20)))
            time.sleep(0.001)
        return len(held)

    template = WorkerTemplate("demeter", memory=Memory.parse("400MiB"))
    target = LocalTarget(provider="local", processes=True)
    spec = DeploymentSpec("blame", "here", target, {"demeter": template}, run_folder=str(tmp_path / "run"))
    handle = LocalProvider().build_cluster(spec)
    try:
        LocalProvider().scale(handle, ScalePlan({"demeter": 2}))
        with handle.client_factory() as client:
            with pytest.raises(WorkerKilledError, match=r"out of memory .* ask for memory: \d+MiB") as error:
                client.submit(eat, tmp_path / "calls", tag="demeter").result(timeout=LONG_S)
            assert error.value.fate is not None
            assert error.value.fate.cause is Loss.OUT_OF_MEMORY
            assert client.submit(len, "abc", tag="demeter").result(timeout=LONG_S) == 3
    finally:
        handle.backend.close()
    assert (tmp_path / "calls").read_text() == "x"


def test_a_note_can_be_read_whatever_is_in_it(tmp_path: Path) -> None:
    assert noted_tasks(tmp_path / "missing") is None
    note = TaskNote(tmp_path / "note")
    assert noted_tasks(tmp_path / "note") == set()
    for keys in ({"f-1", "f-2"}, {"größe"}, set(), {"x" * 100_000}, {str(("a", 1))}):
        note.write(keys)
        found = noted_tasks(tmp_path / "note")
        assert found is not None
        assert found == keys or max(map(len, keys)) > 60_000
    (tmp_path / "torn").write_bytes(b"\xff\xff\xff\xff\xfe")
    assert noted_tasks(tmp_path / "torn") == {"\ufffd"}
