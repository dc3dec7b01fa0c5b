"""A browser reduced to what the server sees of it: requests with any headers, and a stream of events."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from scalable.show.console.guard import TOKEN_HEADER, AccessGuard

PATIENCE_S = 30.0  # an upper bound against hanging, not a measure


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Event(NamedTuple):
    name: str
    data: Any


class Client:
    """A page that was let in, unless ``token`` says otherwise."""

    def __init__(self, guard: AccessGuard, token: str | None = None) -> None:
        self.guard = guard
        self.host = f"127.0.0.1:{guard.port}"
        self.token = guard.enter(token_of(guard.invite())) or "" if token is None else token

    @classmethod
    def at(cls, address: str) -> Self:
        """Open an address, as a browser does."""
        client = cls(AccessGuard("127.0.0.1", int(urlsplit(address).port or 80)), token="")
        client.token = client.enter(token_of(address)).json["token"]
        return client

    def enter(self, token: str) -> Answer:
        return self.get("/api/enter", {"Origin": f"http://{self.host}"}, method="POST", body=token.encode())

    def get(
        self, path: str, headers: Mapping[str, str] | None = None, *, method: str = "GET", body: bytes = b""
    ) -> Answer:
        with self.asked(path, headers or {}, method, body) as answer:
            given = dict(answer.getheaders())
            endless = given.get("Content-Type", "").startswith("text/event-stream")
            return Answer(answer.status, given, b"" if endless else answer.read())

    def post(self, told: Any, headers: Mapping[str, str] | None = None) -> Answer:
        """An action as the page sends it."""
        usual = {"Content-Type": "application/json", "Origin": f"http://{self.host}"}
        body = json.dumps(told).encode()
        return self.get("/api/action", {**usual, **(headers or {})}, method="POST", body=body)

    @contextmanager
    def asked(self, path: str, headers: Mapping[str, str], method: str, body: bytes) -> Iterator[HTTPResponse]:
        connection = HTTPConnection("127.0.0.1", self.guard.port, timeout=PATIENCE_S)
        connection.putrequest(method, path, skip_host=True)
        given = {"Host": self.host, TOKEN_HEADER: self.token, "Content-Length": str(len(body))}
        for name, value in {**given, **headers}.items():
            if value:
                connection.putheader(name, value)
        connection.endheaders(body)
        try:
            yield connection.getresponse()
        finally:
            connection.close()

    @contextmanager
    def stream(self, run: str = "") -> Iterator[Stream]:
        with self.asked(f"/api/stream?run={run}", {}, "GET", b"") as answer:
            assert answer.status == 200, answer.read()
            yield Stream(answer)


def token_of(address: str) -> str:
    return address.partition("#token=")[2]


class Stream:
    def __init__(self, answer: HTTPResponse) -> None:
        self.answer = answer

    def events(self) -> Iterator[Event]:
        """Until the server ends it, or nothing is worth waiting for any more."""
        name = ""
        deadline = time.monotonic() + PATIENCE_S
        while line := self.answer.readline().decode():
            assert time.monotonic() < deadline, "what is waited for does not come"
            if line.startswith("event: "):
                name = line[7:].strip()
            elif line.startswith("data: "):
                yield Event(name, json.loads(line[6:]))

    def until(self, name: str) -> Any:
        """The data of the next event of this name."""
        return next(event.data for event in self.events() if event.name == name)

    def sections(self, *names: str) -> dict[str, Any]:
        """The first of each of these sections."""
        found: dict[str, Any] = {}
        for event in self.events():
            found.setdefault(event.name, event.data)
            if found.keys() >= set(names):
                return found
        raise AssertionError(f"the stream ended with {set(found)}")
