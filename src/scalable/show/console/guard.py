"""Who may read and act: nobody but the person who was shown an address.

An address holds a token that is good for one entry. The page exchanges it for a session token, which it keeps in its
own tab and sends in a header with every request. There is no cookie: browsers send cookies to every port of a host, so
any other server on this machine would learn it. The token is in the fragment of the address, which browsers send to
nobody.

A page of another site that runs in the same browser is the adversary. It knows no token, it cannot set the header, and
a name of its own that it lets point to this machine is refused by the ``Host`` it sends. What is sent is never taken
for a page but where it is one, and the page runs nothing but its own files, which hold no secret.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from secrets import token_urlsafe

TOKEN_HEADER = "X-Scalable-Token"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
OURSELVES = ("same-origin", "none")  # of Sec-Fetch-Site; "none" is a person who typed or clicked the address
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
NAMED = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::(\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class AccessGuard:
    host: str
    """Where it listens."""
    port: int
    read_only: bool = False
    invited: dict[bytes, Callable[[], object]] = field(default_factory=dict)
    """What to do when an address is used, by the fingerprint of its token. Fingerprints, because looking up a guess
    takes a time that depends on what is stored."""
    sessions: set[bytes] = field(default_factory=set)
    """Fingerprints of the session tokens of pages that were let in."""

    def invite(self, used: Callable[[], object] = lambda: None) -> str:
        """Return a new address that lets one page in; ``used`` is called when it does."""
        token = token_urlsafe(32)
        self.invited[fingerprint(token)] = used
        host = socket.gethostname() if is_any(self.host) else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/#token={token}"

    def enter(self, token: str) -> str | None:
        """Exchange the token of an address for that of a session; None if it is unknown or was used."""
        used = self.invited.pop(fingerprint(token), None)
        if used is None:
            return None
        used()
        session = token_urlsafe(32)
        self.sessions.add(fingerprint(session))
        return session

    def admits(self, headers: Mapping[str, str]) -> bool:
        return fingerprint(headers.get(TOKEN_HEADER, "")) in self.sessions

    def refuses(self, path: str, headers: Mapping[str, str]) -> str:
        """Why a request comes from elsewhere; empty if it does not. The first page may be opened from anywhere."""
        host = headers.get("Host", "")
        if not self.is_ours(host):
            return f"this is not {host!r}; open the address that scalable console  printed"
        origin = headers.get("Origin")
        if origin is not None and origin != f"http://{host}":
            return "requests from other sites are refused"
        if path != "/" and headers.get("Sec-Fetch-Site", "none") not in OURSELVES:
            return "requests from other sites are refused"
        return ""

    def is_ours(self, host: str) -> bool:
        """Return whether a ``Host`` names this machine and port.

        Numbers are safe: nobody can let them point elsewhere.
        """
        match = NAMED.fullmatch(host)
        if match is None or int(match[2] or 80) != self.port:
            return False
        name = match[1].lower()
        if is_loopback(self.host):
            return name in LOOPBACK or name.strip("[]") == self.host.lower()
        return is_number(name.strip("[]")) or name in own_names(self.host)


def fingerprint(token: str) -> bytes:
    return sha256(token.encode()).digest()


@cache
def own_names(host: str) -> frozenset[str]:
    """Found once: looking up a full name may take a name server's whole patience, and every request asks."""
    return frozenset(name.lower() for name in ("localhost", host, socket.gethostname(), socket.getfqdn()))


def is_loopback(host: str) -> bool:
    return host.lower() == "localhost" or (is_number(host) and ipaddress.ip_address(host).is_loopback)


def is_any(host: str) -> bool:
    return host == "" or (is_number(host) and ipaddress.ip_address(host).is_unspecified)


def is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
