"""Destinations of pods: the addresses behind a manifest's URLs, as NetworkPolicies can say them.

A NetworkPolicy knows addresses and pods, not names. The name of a service of the cluster is said by its namespace; for
any other name only the port can be restricted, and a note says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

from scalable.errors import UsageError
from scalable.store.errors import StoreUrlError
from scalable.store.urls import POSTGRESQL, scheme_of, server_of
from scalable.wording import shown

PORTS = {"http": 80, "https": 443, "postgresql": 5432}
OBJECT_STORES = {
    "s3": "s3.amazonaws.com", "s3a": "s3.amazonaws.com", "gs": "storage.googleapis.com",
    "gcs": "storage.googleapis.com", "az": "blob.core.windows.net", "abfs": "dfs.core.windows.net",
    "abfss": "dfs.core.windows.net",
}  # fmt: skip
"""Whom a bucket's URL means where no variable names another endpoint."""
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "FSSPEC_S3_ENDPOINT_URL")
LINK_LOCAL = "169.254.0.0/16"  # where clouds hand out their machines' credentials
CREDENTIALS_V6 = ("fd00:ec2::254/128", "fd20:ce::254/128", "fd00:42::42/128")  # the same at AWS, Google and Scaleway
SERVICE = re.compile(r"(?:[\w-]+\.)*[\w-]+\.(?P<namespace>[a-z0-9-]+)\.svc(\.cluster\.local)?\.?")
EXAMPLE = "write host:port, e.g. prices.example.com:443, 10.0.0.0/16:5432 or db.data.svc:5432"

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Destination:
    """Something outside of a run that its pods connect to."""

    purpose: str
    host: str | None
    """A name, an address or a range of addresses; nothing where it is only known in the cluster."""
    port: int
    workers: bool = True
    """Workers connect to it too, not only the driver."""

    def __str__(self) -> str:
        if self.host is None:
            return f"{self.purpose}: its address is not known here"
        return f"{self.purpose}: {f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def peers(self) -> list[Object]:
        if self.network is not None:
            return [{"ipBlock": {"cidr": self.network}}]
        if self.service is not None:
            return [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.service}}}]
        if self.beside:
            return [{"podSelector": {}}]
        return anywhere()

    @property
    def network(self) -> str | None:
        try:
            return str(ip_network(self.host or "", strict=False))
        except ValueError:
            return None

    @property
    def service(self) -> str | None:
        """The namespace of a service of the cluster."""
        match = SERVICE.fullmatch(self.host or "")
        return match["namespace"] if match else None

    @property
    def beside(self) -> bool:
        """A name without dots is a service of the pods' own namespace."""
        return self.host is not None and self.network is None and "." not in self.host

    @property
    def note(self) -> str:
        """A note on how it was said; empty if it was said exactly."""
        if self.network is not None:
            return ""
        if self.host is None:
            return f"{self}, so port {self.port} is open to every address"
        if self.service is not None:
            return f"{self}: every pod of the namespace {self.service} may be reached on this port"
        if self.beside:
            return f"{self}: a service of this namespace needs a policy of its own that lets these pods in"
        return f"{self}: a NetworkPolicy cannot name it, so this port is open to every address"


def anywhere() -> list[Object]:
    return [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": [LINK_LOCAL]}},
        {"ipBlock": {"cidr": "::/0", "except": [*CREDENTIALS_V6]}},
    ]


def store_destination(url: str | None) -> Destination | None:
    """Return a database server; nothing for a file. Raises ``StoreUrlError`` for a URL that no store has."""
    if url is None:
        return Destination("store", None, PORTS["postgresql"], workers=False)
    if scheme_of(url) not in POSTGRESQL:
        return None
    server = server_of(url)
    host = server.host or server.options.get("hostaddr") or server.options.get("host")
    port = str(server.port or server.options.get("port") or PORTS["postgresql"])
    if not port.isdecimal():
        raise StoreUrlError(f"store {url.partition(':')[0]}:… has a port that cannot be read; write one number")
    return Destination("store", host, int(port), workers=False)


def artefacts_destination(url: str, env: Mapping[str, str]) -> Destination | None:
    """Return an object store; nothing for a folder."""
    scheme = url.partition("://")[0] if "://" in url else "file"
    if scheme in ("file", "local"):
        return None
    if scheme in PORTS:
        return web_destination("artefacts", url, workers=True)
    endpoint = next((env[name] for name in ENDPOINTS if env.get(name)), None) if scheme.startswith("s3") else None
    if endpoint is not None:
        return web_destination("artefacts", endpoint, workers=True)
    return Destination("artefacts", OBJECT_STORES.get(scheme), PORTS["https"])


def web_destination(purpose: str, url: str, *, workers: bool) -> Destination:
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme)
    except ValueError:
        port = None
    if port is None or not parts.hostname:
        raise UsageError(f"{shown(url.rpartition('@')[2])} has no host and port; write https://host/path")
    return Destination(purpose, parts.hostname, port, workers)


def named_destination(text: str, purpose: str = "egress") -> Destination:
    """Return what a person wrote as ``host:port`` or as a web address."""
    if "://" in text:
        return web_destination(purpose, text, workers=True)
    host, colon, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not port.isdecimal() or not 0 < int(port) < 65536 or not re.fullmatch(r"[\w.:/-]+", host):
        raise UsageError(f"{shown(text)} is not a place to connect to; {EXAMPLE}")
    destination = Destination(purpose, host, int(port))
    if "/" in host and destination.network is None:
        raise UsageError(f"{shown(host)} is not a range of addresses; {EXAMPLE}")
    return destination
