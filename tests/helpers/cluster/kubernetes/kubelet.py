"""The server in a thread of its own, with a kubelet that runs the command of every pod as a process of this machine."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from scalable.cluster.kubernetes.objects import HANDOUT, SCRATCH
from tests.helpers.cluster.kubernetes.server import Object, Server, a_server
from tests.helpers.waiting import LONG_S

NODE = "node-1"


class Kubelet:
    """Everything of it runs in the server's loop."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.evicting: dict[str, dict[str, Any]] = {}
        """What a pod says of its end, if somebody else ends it."""
        self.holds = False
        """Pods wait for a node."""
        server.created.append(self.made)
        server.deleted.append(self.told_to_go)
        server.pods_end_at_once = False

    def made(self, resource: str, pod: Object) -> None:
        if resource == "pods" and not self.holds:
            self.start(pod)

    def start(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        place = self.folder / name
        (place / "handout").mkdir(parents=True)
        for file, content in self.server.objects["secrets", secret_of(pod)]["data"].items():
            (place / "handout" / file).write_bytes(base64.b64decode(content))
        (place / "scratch").mkdir()
        container = pod["spec"]["containers"][0]
        moved = {HANDOUT: str(place / "handout"), SCRATCH: str(place / "scratch")}
        command = [sys.executable, *container["command"][1:]]
        for old, new in moved.items():
            command = [part.replace(old, new) for part in command]
        env = {one["name"]: one["value"] for one in container["env"] if "value" in one} | {"HOME": str(place)}
        with (place / "log").open("wb") as log:
            process = subprocess.Popen(
                command, env={**os.environ, **env}, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        self.processes[name] = process
        pod["spec"]["nodeName"] = NODE
        running = [{"name": container["name"], "state": {"running": {}}}]
        self.server.change("pods", name, phase="Running", podIP="127.0.0.1", containerStatuses=running)

    def told_to_go(self, resource: str, pod: Object) -> None:
        if resource == "pods":
            name = pod["metadata"]["name"]
            if name in self.processes:
                self.processes[name].send_signal(signal.SIGTERM)
            else:
                asyncio.get_running_loop().call_soon(self.server.remove, "pods", name)

    def evict(self, name: str) -> None:
        """As a drained node does it: notice, then the end."""
        told = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "drained"}
        self.server.change("pods", name, conditions=[told])
        self.server.end("pods", name)

    async def watch(self) -> None:
        while True:
            for name, process in list(self.processes.items()):
                self.server.logs[name] = (self.folder / name / "log").read_text(errors="replace")
                if process.poll() is not None:
                    del self.processes[name]
                    self.ended(name, process.returncode)
                elif ("pods", name) not in self.server.objects:  # deleted by force
                    process.kill()
            await asyncio.sleep(0.02)

    def ended(self, name: str, code: int) -> None:
        if ("pods", name) not in self.server.objects:
            return
        end = {"exitCode": code if code >= 0 else 128 - code, "reason": "Completed" if code == 0 else "Error"}
        states = [{"name": "worker", "state": {"terminated": end}}]
        phase = "Succeeded" if code == 0 else "Failed"
        self.server.change("pods", name, phase=phase, containerStatuses=states)
        if "deletionTimestamp" in self.server.objects["pods", name]["metadata"]:
            self.server.remove("pods", name)

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


def secret_of(pod: Object) -> str:
    return str(next(one["secret"]["secretName"] for one in pod["spec"]["volumes"] if "secret" in one))


class RunningServer:
    """How tests reach the server and its kubelet from their own thread."""

    def __init__(self, server: Server, kubelet: Kubelet, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.kubelet = kubelet
        self.loop = loop

    def do(self, what: Callable[[], Any]) -> Any:
        async def call() -> Any:
            return what()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(LONG_S)

    def until(self, condition: Callable[[], Any], within: float = LONG_S) -> None:
        deadline = time.monotonic() + within
        while not self.do(condition):
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.02)


@contextmanager
def a_running_server(folder: Path) -> Iterator[RunningServer]:
    ready = threading.Event()
    found: list[RunningServer] = []
    stop: list[asyncio.Event] = []

    async def serve() -> None:
        async with a_server() as server:
            kubelet = Kubelet(server, folder)
            watching = asyncio.ensure_future(kubelet.watch())
            stop.append(asyncio.Event())
            found.append(RunningServer(server, kubelet, asyncio.get_running_loop()))
            ready.set()
            try:
                await stop[0].wait()
            finally:
                kubelet.close()
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching  # whatever went wrong in it is shown

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(LONG_S)
    try:
        yield found[0]
    finally:
        found[0].loop.call_soon_threadsafe(stop[0].set)
        thread.join()
