"""A small API server over real HTTP: keeps objects, tells watchers, and misbehaves when told to."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Object = dict[str, Any]
NAMESPACE = "work"


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    body: Object
    at: float

    @property
    def watches(self) -> bool:
        return "watch" in self.query


@dataclass
class Fault:
    """Instead of an answer, so many times: a status, or a connection that is cut before or after the deed."""

    method: str
    path: str
    status: int = 0
    reason: str = ""
    message: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    lost: bool = False
    """What was asked for is done, and the answer gets lost."""
    times: int = 1
    watches: bool | None = None

    def hits(self, request: Request) -> bool:
        return (
            self.times > 0
            and request.method == self.method
            and re.search(self.path, request.path) is not None
            and self.watches in (None, request.watches)
        )


class Server:
    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.logs: dict[str, str] = {}
        self.version = 10
        self.oldest = 0
        """Versions up to this are forgotten."""
        self.news: list[tuple[int, str, str, Object]] = []
        self.watchers: set[asyncio.Queue[tuple[int, str, str, Object] | None]] = set()
        self.created: list[Callable[[str, Object], None]] = []
        """Called with every object that was made."""
        self.deleted: list[Callable[[str, Object], None]] = []
        self.pods_end_at_once = True
        """A pod that is deleted is gone, as if its kubelet had answered."""
        self.url = ""

    # What tests do to it

    def fail(self, method: str, path: str, status: int = 0, **more: Any) -> None:
        self.faults.append(Fault(method, path, status, **more))

    def cut_watches(self) -> None:
        for queue in list(self.watchers):
            queue.put_nowait(None)

    def forget_versions(self) -> None:
        self.oldest = self.version

    def asked(self, method: str, path: str) -> list[Request]:
        return [one for one in self.requests if one.method == method and re.search(path, one.path)]

    def names(self, resource: str) -> list[str]:
        return sorted(name for kind, name in self.objects if kind == resource)

    def change(self, resource: str, name: str, **status: Any) -> None:
        """Another status of an object, told to all who watch."""
        one = self.objects[resource, name]
        one["status"] = {**one.get("status", {}), **status}
        self.tell("MODIFIED", resource, one)

    def add(self, resource: str, body: Object) -> Object:
        name = body["metadata"]["name"]
        body["metadata"]["uid"] = f"uid-{resource}-{name}"
        if resource == "pods":
            body.setdefault("status", {"phase": "Pending"})
        self.objects[resource, name] = body
        self.tell("ADDED", resource, body)
        for heard in self.created:
            heard(resource, body)
        return body

    def remove(self, resource: str, name: str) -> None:
        one = self.objects.pop((resource, name))
        self.tell("DELETED", resource, one)
        uid = one["metadata"]["uid"]
        for (kind, other), owned in list(self.objects.items()):  # as the garbage collector does
            if any(owner["uid"] == uid for owner in owned["metadata"].get("ownerReferences", ())):
                self.end(kind, other)

    def end(self, resource: str, name: str) -> None:
        one = self.objects[resource, name]
        for heard in self.deleted:
            heard(resource, one)
        if resource != "pods" or self.pods_end_at_once:
            self.remove(resource, name)
        else:
            one["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self.tell("MODIFIED", resource, one)

    def tell(self, kind: str, resource: str, one: Object) -> None:
        self.version += 1
        one["metadata"]["resourceVersion"] = str(self.version)
        told = (self.version, kind, resource, json.loads(json.dumps(one)))
        self.news.append(told)
        for queue in self.watchers:
            queue.put_nowait(told)

    # HTTP

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while (request := await self.read(reader)) is not None:
                self.requests.append(request)
                fault = next((one for one in self.faults if one.hits(request)), None)
                if fault is not None:
                    fault.times -= 1
                    if fault.status:
                        self.answer(writer, fault.status, status(fault), fault.headers)
                        continue
                    if fault.lost:
                        self.handle(request)
                    break
                if request.watches:
                    await self.watch(request, writer)
                    break
                if request.path.endswith("/log"):
                    name = request.path.split("/")[-2]
                    if "follow" in request.query and name in self.logs:
                        await self.follow(name, writer)
                        break
                    self.write(writer, 200 if name in self.logs else 404, self.logs.get(name, "no log").encode(), {})
                    continue
                self.answer(writer, *self.handle(request))
        writer.close()

    async def read(self, reader: asyncio.StreamReader) -> Request | None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        where = urlsplit(target)
        query = dict(parse_qsl(where.query))
        return Request(method, where.path, query, json.loads(body) if body else {}, time.monotonic())

    def answer(
        self, writer: asyncio.StreamWriter, status: int, body: Object, headers: dict[str, str] | None = None
    ) -> None:
        self.write(writer, status, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})})

    def write(self, writer: asyncio.StreamWriter, status: int, body: bytes, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *(f"{n}: {v}" for n, v in headers.items())]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def watch(self, request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        since = int(request.query["resourceVersion"])
        resource = request.path.rpartition("/")[2]
        if since < self.oldest:
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            self.chunk(writer, "ERROR", gone)
            writer.write(b"0\r\n\r\n")
            return
        queue: asyncio.Queue[tuple[int, str, str, Object] | None] = asyncio.Queue()
        for told in self.news:
            queue.put_nowait(told)
        self.watchers.add(queue)
        try:
            while (news := await queue.get()) is not None:
                version, kind, about, one = news
                if about == resource and version > since:
                    self.chunk(writer, kind, one)
                    await writer.drain()
            writer.write(b"20\r\n{half")  # cut within a line
        finally:
            self.watchers.discard(queue)

    def chunk(self, writer: asyncio.StreamWriter, kind: str, one: Object) -> None:
        self.send(writer, json.dumps({"type": kind, "object": one}).encode() + b"\n")

    def send(self, writer: asyncio.StreamWriter, text: bytes) -> None:
        writer.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")

    async def follow(self, pod: str, writer: asyncio.StreamWriter) -> None:
        """What a pod prints, until it has ended."""
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        sent, over = 0, False
        while not over:
            over = self.objects.get(("pods", pod), {}).get("status", {}).get("phase") not in ("Pending", "Running")
            text = self.logs[pod].encode()
            if text[sent:]:
                self.send(writer, text[sent:])
                sent = len(text)
            await asyncio.sleep(0.02)
        self.send(writer, b"")

    def handle(self, request: Request) -> tuple[int, Object]:
        parts = request.path.removeprefix("/api/v1/").removeprefix(f"namespaces/{NAMESPACE}/").split("/")
        resource, name = parts[0], (parts[1] if len(parts) > 1 else "")
        if request.method == "POST":
            name = request.body["metadata"]["name"]
            if (resource, name) in self.objects:
                return 409, problem(409, "AlreadyExists", f'{resource} "{name}" already exists')
            return 201, self.add(resource, request.body)
        if not name:
            items = [one for (kind, _), one in self.objects.items() if kind == resource]
            return 200, {"items": items, "metadata": {"resourceVersion": str(self.version)}}
        if (resource, name) not in self.objects:
            return 404, problem(404, "NotFound", f'{resource} "{name}" not found')
        one = self.objects[resource, name]
        if request.method == "DELETE":
            if request.body.get("gracePeriodSeconds") == 0:
                self.remove(resource, name)
            else:
                self.end(resource, name)
        return 200, one


def status(fault: Fault) -> Object:
    return problem(fault.status, fault.reason, fault.message)


def problem(code: int, reason: str, message: str) -> Object:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


@asynccontextmanager
async def a_server() -> AsyncIterator[Server]:
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        server.cut_watches()
