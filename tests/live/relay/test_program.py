"""``python -m scalable.cluster.kubernetes.relay``: how it starts, how it ends, and what it says to wrong input."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from scalable.cluster.kubernetes.relay import TOKEN_FILE, arguments, new_token
from scalable.cluster.kubernetes.relay.__main__ import place
from scalable.cluster.kubernetes.relay.server import Relay
from tests.helpers.waiting import LONG_S

RELAY = (sys.executable, "-m", "scalable.cluster.kubernetes.relay")


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / TOKEN_FILE
    file.write_bytes(new_token())
    return file


def test_it_listens_until_it_is_told_to_end(token: Path) -> None:
    line = [*RELAY, "--listen=127.0.0.1:0", "--control=[::1]:0", f"--token={token}"]
    relay = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    try:
        assert relay.stderr is not None
        assert "workers connect to port" in relay.stderr.readline()
        relay.send_signal(signal.SIGTERM)
        assert relay.wait(LONG_S) == 0
    finally:
        relay.kill()
        relay.communicate()


def test_without_a_host_workers_of_both_families_connect() -> None:
    async def scene() -> None:
        relay = Relay(new_token())
        try:
            await relay.listen(place(":0"), place("127.0.0.1:0"))
            families = {one.family for one in relay.servers[0].sockets}
            assert families == {socket.AF_INET, socket.AF_INET6}
        finally:
            await relay.close()

    asyncio.run(scene())


def test_it_needs_neither_dask_nor_anything_else_that_is_large() -> None:
    code = "import sys, scalable.cluster.kubernetes.relay.server"
    code += "; print([name for name in ('distributed', 'dask') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LONG_S, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"--listen": "8786"}, "'8786' is no place; write HOST:PORT, for example 0.0.0.0:8786"),
        ({"--control": "localhost:http"}, "'localhost:http' is no place"),
        ({"--listen": "0.0.0.0:65536"}, "'0.0.0.0:65536' is no place"),
        ({"--token": "nowhere"}, "the token cannot be read from nowhere: no such file"),
        ({"--token": "short"}, "the token in short has 3 bytes"),
        ({"--listen": "127.0.0.1:{taken}"}, "cannot listen on"),
    ],
    ids=["no host", "no number", "no port", "no token", "short token", "taken"],
)
def test_wrong_input_is_named(changed: dict[str, str], problem: str, token: Path) -> None:
    (token.parent / "short").write_bytes(b"abc")
    given = {"--listen": "127.0.0.1:0", "--control": "127.0.0.1:0", "--token": str(token), **changed}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = [f"{name}={value.replace('{taken}', str(port))}" for name, value in given.items()]
        done = subprocess.run([*RELAY, *line], capture_output=True, text=True, timeout=LONG_S, cwd=token.parent)
    assert done.returncode == 2
    assert problem in done.stderr


def test_its_arguments_in_a_pod_name_the_handout() -> None:
    assert arguments("/handout/") == [
        "--listen=:8786", "--control=127.0.0.1:8787", "--token=/handout/relay-token"
    ]  # fmt: skip
