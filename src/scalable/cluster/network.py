"""The network interfaces of this machine, for those who must choose one."""

from __future__ import annotations

import socket

import psutil

MOST_PORTS = 65_535


def interfaces() -> dict[str, str]:
    """Return every interface that is up and has an IPv4 address, by name."""
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    return {
        name: address.address
        for name, addresses in psutil.net_if_addrs().items()
        for address in addresses
        if name in up and address.family == socket.AF_INET
    }


def listed() -> str:
    return ", ".join(f"{name} ({address})" for name, address in interfaces().items()) or "none"


def no_such_interface(name: str) -> str:
    """Return what to say if an interface does not exist or is down; empty if it is fine."""
    if name in interfaces():
        return ""
    return f"this machine has no network interface {name!r} that is up; it has: {listed()}"


def contact(written: str, address: str) -> str:
    """Return a scheduler's address as others shall use it; protocol and port are its own if not written."""
    protocol, own = address.split("://", 1)
    host = written.split("://", 1)[-1]
    port = own.rpartition(":")[2]
    return f"{protocol}://{host}" if ":" in host else f"{protocol}://{host}:{port}"


def no_such_port(port: int) -> str:
    """Return what to say if a scheduler cannot listen on a port; empty if it can, or if any will do (0)."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= MOST_PORTS:
        return f"{port!r} is no port; write a number from 1 to {MOST_PORTS}, or leave it out"
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            why = str(error.strerror).lower()
            return f"{port} cannot be used on this machine ({why}); write another, or leave it out"
    return ""
