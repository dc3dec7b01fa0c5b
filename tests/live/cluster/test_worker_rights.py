"""Attacks with the key of a worker on a running cluster: on its scheduler, on its driver, on its other workers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, Lock, SchedulerPlugin, get_client, worker_client
from distributed.comm.core import CommClosedError, connect
from distributed.comm.tcp import TLSConnector
from distributed.core import rpc
from distributed.protocol.pickle import dumps
from distributed.protocol.serialize import ToPickle, to_serialize
from distributed.security import Security

from scalable import ScalableClient
from scalable.cluster.base import ClusterHandle, DeploymentSpec, WorkerTemplate
from scalable.cluster.local import LocalProvider
from scalable.manifest.policies import Policies
from scalable.manifest.targets import LocalTarget
from scalable.planning.resources import ScalePlan
from scalable.worker.main import security as security_of_a_worker
from scalable.worker.rights import AT_A_WORKER, NotAClientError, at_a_scheduler
from tests.helpers.waiting import LONG_S, soon, until

WORKERS = 2


def a_cluster(folder: Path, policies: Policies) -> ClusterHandle:
    target = LocalTarget(provider="local", processes=True, max_workers=WORKERS)
    parts = {"model": WorkerTemplate("model")}
    spec = DeploymentSpec("rights", "here", target, parts, policies, run_folder=str(folder))
    handle = LocalProvider().build_cluster(spec)
    LocalProvider().scale(handle, ScalePlan({"model": WORKERS}))
    return handle


@pytest.fixture(scope="module")
def handle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterHandle]:
    handle = a_cluster(tmp_path_factory.mktemp("run"), Policies())
    yield handle
    handle.backend.close()


@pytest.fixture
def client(handle: ClusterHandle) -> Iterator[ScalableClient]:
    with handle.client_factory() as client:
        yield client


@pytest.fixture
def findings(handle: ClusterHandle) -> Iterator[list[dict[str, Any]]]:
    """What the cluster tells of refused calls; each test hears of all of them anew."""
    heard: list[dict[str, Any]] = []

    def listener(kind: str, facts: dict[str, Any]) -> None:
        if kind == "finding":
            heard.append(facts)

    handle.backend.listeners.append(listener)
    handle.backend.scheduler.refused.told.clear()
    yield heard
    handle.backend.listeners.remove(listener)


def stolen(handle: ClusterHandle) -> Security:
    """What somebody has who could read what a worker is handed."""
    return security_of_a_worker(str(handle.backend.launcher.handout))


def call(security: Security, address: str, op: str, /, **arguments: Any) -> Any:
    """Call a handler of Dask by its name."""

    async def called() -> Any:
        async with rpc(address, connection_args=security.get_connection_args("client")) as server:
            return await getattr(server, op)(**arguments)

    return asyncio.run(asyncio.wait_for(called(), LONG_S))


@pytest.mark.journey
def test_a_workers_key_opens_no_client_and_the_error_says_what_to_do(
    handle: ClusterHandle, findings: list[dict[str, Any]]
) -> None:
    with pytest.raises(ImportError, match="has the key of one; submit work from the driver"):
        Client(handle.backend.scheduler_address, security=stolen(handle), timeout=LONG_S, set_as_default=False)
    [finding] = [finding for finding in findings if "register-client" in finding["text"]]
    assert (finding["code"], finding["severity"]) == ("call-refused", "warning")


def test_every_call_that_workers_do_not_make_is_refused_by_the_scheduler(
    handle: ClusterHandle, client: ScalableClient, findings: list[dict[str, Any]]
) -> None:
    scheduler = handle.backend.scheduler
    allowed = at_a_scheduler(lambda message: False).calls
    assert set(allowed) - set(scheduler.handlers) == {"close"}, "a call was renamed in Dask"
    refused = [op for op in scheduler.handlers if op not in {*allowed, "register-client"}]
    assert {"run_function", "register_scheduler_plugin", "feed", "update_data", "gather", "broadcast"} <= set(refused)
    for op in [*refused, "no_such_call"]:
        with pytest.raises(PermissionError, match="is not for workers"):
            call(stolen(handle), scheduler.address, op)
    assert len(findings) == len(refused) + 1
    assert client.submit(sum, [1, 2], tag="model", pure=False).result(timeout=LONG_S) == 3


def mark(path: str) -> None:
    Path(path).write_text("was here")


class Plugin(SchedulerPlugin):
    name = "planted"

    def __init__(self, path: str) -> None:
        self.path = path

    async def start(self, scheduler: Any) -> None:
        mark(self.path)


Attack = Callable[[ClusterHandle, Security, str], Any]
ATTACKS: dict[str, Attack] = {
    "run a function in the driver": lambda handle, keys, path: call(
        keys, handle.backend.scheduler.address, "run_function", function=dumps(mark), args=dumps((path,))
    ),
    "plant a plugin in the driver": lambda handle, keys, path: call(
        keys, handle.backend.scheduler.address, "register_scheduler_plugin", plugin=dumps(Plugin(path)),
        idempotent=False,
    ),
    "run a function on a worker": lambda handle, keys, path: call(
        keys, next(iter(handle.backend.scheduler.workers)), "run", function=dumps(mark), args=dumps((path,))
    ),
    "run a function on all workers": lambda handle, keys, path: call(
        keys, handle.backend.scheduler.address, "broadcast",
        msg={"op": "run", "function": dumps(mark), "args": dumps((path,))},
    ),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_code_is_run_for_the_drivers_key_and_not_for_a_workers(
    handle: ClusterHandle, tmp_path: Path, attack: str
) -> None:
    path = tmp_path / "mark"
    with pytest.raises(PermissionError, match="is not for workers"):
        ATTACKS[attack](handle, stolen(handle), str(path))
    assert not path.exists()
    ATTACKS[attack](handle, handle.backend.security, str(path))
    assert path.read_text() == "was here", "the attack itself would have worked"


def test_results_of_others_are_read_with_the_drivers_key_only(handle: ClusterHandle, client: ScalableClient) -> None:
    secret = client.submit(str, "a result", tag="model", pure=False)
    secret.result(timeout=LONG_S)
    scheduler = handle.backend.scheduler.address
    for op, arguments in (("gather", {"keys": [secret.key]}), ("has_what", {}), ("who_has", {}), ("get_logs", {})):
        with pytest.raises(PermissionError, match=op):
            call(stolen(handle), scheduler, op, **arguments)
        assert call(handle.backend.security, scheduler, op, **arguments)


def test_only_a_worker_that_leaves_is_taken_out_for_a_workers_key(
    handle: ClusterHandle, client: ScalableClient
) -> None:
    scheduler = handle.backend.scheduler
    [first, *_] = scheduler.workers
    attempts: list[dict[str, Any]] = [
        {"workers": [first]}, {"workers": [first], "close_workers": False}, {"names": ["model-0"]}, {}, {"workers": []},
    ]  # fmt: skip
    for arguments in attempts:
        with pytest.raises(PermissionError, match="retire_workers"):
            call(stolen(handle), scheduler.address, "retire_workers", **arguments)
    for op in ("terminate", "restart", "unregister"):
        with pytest.raises(PermissionError, match=op):
            call(stolen(handle), scheduler.address, op)
    assert len(scheduler.workers) == WORKERS


def test_nobody_changes_what_a_worker_can_do_in_its_name(handle: ClusterHandle) -> None:
    scheduler = handle.backend.scheduler
    [first, *_] = scheduler.workers
    for op, arguments in (
        ("heartbeat_worker", {"address": first, "now": 0.0, "metrics": {}, "resources": {"model": 100}}),
        ("set_resources", {"worker": first, "resources": {"model": 100}}),
        ("add_keys", {"worker": first, "keys": ["x"]}),
    ):
        with pytest.raises(PermissionError, match=op):
            call(stolen(handle), scheduler.address, op, **arguments)
    assert scheduler.workers[first].resources == {"model": 1}


def test_every_call_that_workers_do_not_make_is_refused_by_workers(handle: ClusterHandle) -> None:
    for address in handle.backend.scheduler.workers:
        ours = call(handle.backend.security, address, "identity")
        assert ours["type"] == "TellingWorker"
        for op in ("run", "run_coroutine", "plugin-add", "upload_file", "update_data", "terminate", "actor_execute"):
            assert op not in AT_A_WORKER.calls
            with pytest.raises(PermissionError, match="is not for workers"):
                call(stolen(handle), address, op)
        with pytest.raises(PermissionError, match="connection_stream"):  # it would take tasks from whoever calls
            call(stolen(handle), address, "connection_stream")


class Trap:
    """Leaves a mark where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return mark, (str(self.path),)


@pytest.mark.parametrize("wrapped", [ToPickle, to_serialize])
def test_pickles_of_a_worker_are_opened_by_nobody(
    handle: ClusterHandle, tmp_path: Path, wrapped: Callable[[Any], Any]
) -> None:
    scheduler = handle.backend.scheduler

    async def send(address: str, security: Security, path: Path) -> None:
        options = security.get_connection_args("client")
        comm = await connect(address, **options)
        await comm.write({"op": "identity", "reply": True, "more": wrapped(Trap(path))})
        await comm.read()
        await comm.close()
        raw = await TLSConnector().connect(address.removeprefix("tls://"), **options)
        await raw.read()
        await raw.write({"compression": None, "python": (3, 11), "pickle-protocol": 5, "more": wrapped(Trap(path))})
        await raw.write({"op": "identity", "reply": True})
        await raw.read()
        await raw.close()

    for number, address in enumerate((scheduler.address, *scheduler.workers)):
        path = tmp_path / f"mark-{number}"
        asyncio.run(asyncio.wait_for(send(address, stolen(handle), path), LONG_S))
        assert not path.exists()
    if wrapped is ToPickle:
        path = tmp_path / "by-the-driver"
        asyncio.run(asyncio.wait_for(send(scheduler.address, handle.backend.security, path), LONG_S))
        assert path.exists(), "Dask itself opens them"


def registration(handle: ClusterHandle, name: str) -> dict[str, Any]:
    real = next(iter(handle.backend.scheduler.workers.values()))
    return {
        "op": "register-worker", "reply": False, "address": "tls://127.0.0.1:9", "status": "running", "nthreads": 1,
        "name": name, "now": 0.0, "resources": {"model": 0.0}, "memory_limit": None, "local_directory": "/", "pid": 0,
        "services": {}, "nanny": None, "versions": real.versions, "metrics": real.metrics, "extra": {},
        "stimulus_id": "x", "server_id": "x",
    }  # fmt: skip


def as_a_worker(handle: ClusterHandle, name: str, then: Callable[[Any, Any], Awaitable[None]]) -> None:
    async def joined() -> None:
        comm = await connect(handle.backend.scheduler.address, **stolen(handle).get_connection_args("worker"))
        await comm.write(registration(handle, name))
        await then(comm, await comm.read())
        await comm.close()

    asyncio.run(asyncio.wait_for(joined(), LONG_S))


def test_a_worker_that_nobody_asked_for_is_not_taken_in(handle: ClusterHandle, findings: list[dict[str, Any]]) -> None:
    async def then(comm: Any, answer: Any) -> None:
        assert answer["status"] == "error"
        assert answer["message"] == "no worker was asked for as stranger"

    as_a_worker(handle, "stranger", then)
    as_a_worker(handle, "model-99", lambda comm, answer: expect(answer["status"] == "error"))
    assert len(handle.backend.scheduler.workers) == WORKERS
    assert ["no worker was asked for as stranger" in finding["text"] for finding in findings] == [True]


async def expect(condition: bool) -> None:
    assert condition


def test_a_workers_stream_says_what_workers_say_in_its_own_name_only(
    handle: ClusterHandle, client: ScalableClient, findings: list[dict[str, Any]]
) -> None:
    scheduler = handle.backend.scheduler
    victim = next(iter(scheduler.workers))

    async def then(comm: Any, answer: Any) -> None:
        assert answer["status"] == "OK"
        await comm.write([
            {"op": "update-graph", "client": client.id},
            {"op": "client-releases-keys", "client": client.id, "keys": []},
            {"op": "worker-status-change", "status": "paused", "worker": victim, "stimulus_id": "x"},
            {"op": "log-event", "topic": "spoken", "msg": {"who": "rogue"}, "worker": victim},
        ])  # fmt: skip
        await soon(lambda: scheduler.get_events("spoken"))
        assert scheduler.workers["tls://127.0.0.1:9"].status.name == "paused", "it speaks for itself"
        assert scheduler.workers[victim].status.name == "running"

    handle.backend.launching.add("rogue")  # as if it had come in the place of one that was asked for
    as_a_worker(handle, "rogue", then)
    handle.backend.launching.discard("rogue")
    [(_, heard)] = scheduler.get_events("spoken")
    assert heard["worker"] == "tls://127.0.0.1:9"
    assert {"update-graph", "client-releases-keys"} == {finding["text"].split("'")[1] for finding in findings}
    assert until(lambda: len(scheduler.workers) == WORKERS)


def nested(number: int) -> int:
    with worker_client() as client:
        return int(client.submit(abs, -number, resources={"model": 0}).result(timeout=LONG_S))


def asks_for_a_client() -> str:
    return str(get_client().id)


def locked(number: int) -> int:
    with Lock("one at a time"):
        return number + 1


def test_a_task_that_wants_a_client_fails_with_what_to_write(client: ScalableClient) -> None:
    for function, arguments in ((nested, (3,)), (asks_for_a_client, ())):
        with pytest.raises(NotAClientError, match=r"policies: \{worker_clients: allowed\}"):
            client.submit(function, *arguments, tag="model", pure=False).result(timeout=LONG_S)


def test_what_workers_and_clients_do_otherwise_goes_on(handle: ClusterHandle, client: ScalableClient) -> None:
    [first, second] = handle.backend.scheduler.workers
    here = client.submit(bytes, 100_000, workers=[first], pure=False)
    assert client.submit(len, here, workers=[second], pure=False).result(timeout=LONG_S) == 100_000
    assert client.gather(client.map(abs, [-1, -2], tag="model", pure=False)) == [1, 2]
    assert client.submit(locked, 1, tag="model", pure=False).result(timeout=LONG_S) == 2
    assert set(client.run(lambda: 1).values()) == {1}
    assert client.run_on_scheduler(lambda: 2) == 2
    scattered = client.scatter([1, 2, 3], workers=[second])
    client.replicate(scattered, n=2)
    assert client.submit(sum, scattered, workers=[first], pure=False).result(timeout=LONG_S) == 6


def test_with_worker_clients_allowed_tasks_submit_tasks(tmp_path: Path) -> None:
    handle = a_cluster(tmp_path, Policies(worker_clients="allowed"))
    try:
        with handle.client_factory() as client:
            assert client.submit(nested, 3, tag="model").result(timeout=LONG_S) == 3
    finally:
        handle.backend.close()


def test_a_worker_in_the_schedulers_place_is_refused(handle: ClusterHandle) -> None:
    """By a worker, which would do whatever its scheduler says."""
    [first, second] = handle.backend.scheduler.workers
    with handle.client_factory() as client:
        answers = client.run(ask, second, workers=[first])
    assert "is no scheduler: it has the key of a worker" in answers[first]


async def ask(address: str, dask_worker: Any) -> str:
    from distributed.comm import registry

    from scalable.worker.rights import beware_of_workers

    backend: Any = registry.get_backend("tls")
    before = backend._connector_class
    beware_of_workers(address)
    try:
        comm = await connect(address, **dask_worker.connection_args)
    except CommClosedError as error:
        return str(error)
    finally:
        backend._connector_class = before
    await comm.close()
    return "connected"
