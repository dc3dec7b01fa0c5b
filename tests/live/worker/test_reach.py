"""Why a scheduler is not reached, for addresses of either family."""

from __future__ import annotations

import socket

import pytest

from scalable.worker.main import why_unreachable


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_an_open_port_and_a_closed_one_are_told_apart(family: socket.AddressFamily, host: str) -> None:
    written = f"[{host}]" if ":" in host else host
    with socket.create_server((host, 0), family=family) as listening:
        port = listening.getsockname()[1]
        assert "the port is open" in why_unreachable(f"tls://{written}:{port}", 1.0)
    assert "connection refused" in why_unreachable(f"tls://{written}:{port}", 1.0)
