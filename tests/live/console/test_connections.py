"""Connections that use up what the machine lends: they are cut, and nobody is told at length."""

from __future__ import annotations

import errno
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from scalable.show.console import connections
from tests.helpers.browser.serving import served
from tests.helpers.console.client import Client
from tests.helpers.observe.builders import a_run
from tests.helpers.waiting import until


def test_a_machine_without_files_is_asked_now_and_then_and_served_again_once_it_has_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    a_run(tmp_path)
    monkeypatch.setattr(connections, "FULL_S", 0.05)
    accept, refused, enough = socket.socket.accept, [0], threading.Event()

    def without_files(self: socket.socket) -> Any:
        if enough.is_set():
            return accept(self)
        refused[0] += 1
        raise OSError(errno.EMFILE, "Too many open files")

    with served(tmp_path) as guard:
        client = Client(guard)
        monkeypatch.setattr(socket.socket, "accept", without_files)
        with socket.create_connection(("127.0.0.1", guard.port)):
            assert until(lambda: refused[0] >= 3)
            enough.set()
            assert client.get("/api/runs").status == 200
    assert not caplog.records


BEGUN = (
    b"",
    b"GET / HTTP/1.1\r\nHost: x\r\n",
    b"POST /api/enter HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\n1",
)


@pytest.mark.parametrize("begun", BEGUN)
def test_a_request_that_never_ends_is_cut_off(begun: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 0.1)
    with served(tmp_path) as guard, socket.create_connection(("127.0.0.1", guard.port), timeout=30) as half:
        half.sendall(begun.replace(b"{host}", f"127.0.0.1:{guard.port}".encode()))
        while half.recv(1 << 16):
            pass  # until the console closes it


def test_at_the_limit_strangers_make_room_and_pages_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 3)
    run = a_run(tmp_path)
    with served(tmp_path) as guard, Client(guard).stream() as stream:
        assert stream.until("run")["run_id"] == run.run_id
        address = ("127.0.0.1", guard.port)
        strangers = [socket.create_connection(address, timeout=30) for _ in range(4)]
        assert [stranger.recv(1) for stranger in strangers[:2]] == [b"", b""]  # the oldest were closed
        assert Client(guard).get("/api/runs").status == 200
        late = a_run(tmp_path)
        while stream.until("run")["run_id"] != late.run_id:
            pass  # the page still hears
        for stranger in strangers:
            stranger.close()
