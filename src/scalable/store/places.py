"""A store's URL as the file it names, and as it may be shown: without passwords."""

from __future__ import annotations

import re
from pathlib import Path

from scalable.store.errors import StoreUrlError

EXAMPLE = "sqlite:///.scalable/results.db"
URL = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*):(?P<slashes>/*)(?P<rest>.*)", re.DOTALL)
SQLITE = ("sqlite", "sqlite+pysqlite")


def file_of(url: str) -> Path:
    """The file of a URL ``sqlite:///relative/path.db`` or ``sqlite:////absolute/path.db``."""
    if not isinstance(url, str):
        raise StoreUrlError(f"a store's URL is a text, not a {type(url).__name__}; write {EXAMPLE}")
    found = URL.fullmatch(url)
    if not found:
        raise StoreUrlError(f"{url!r} is not a store's URL; write sqlite:///{url or 'results.db'}")
    scheme, slashes, rest = found["scheme"].lower(), found["slashes"], found["rest"]
    if scheme not in SQLITE:
        raise StoreUrlError(f"store {shown_url(url)}: {scheme} is not supported; write {EXAMPLE}")
    if "?" in rest:
        raise StoreUrlError(f"store {shown_url(url)}: what follows a ? is not supported; leave it out")
    if not rest or rest == ":memory:":
        raise StoreUrlError(f"store {shown_url(url)} would be lost with the process; name a file, e.g. {EXAMPLE}")
    if len(slashes) not in (3, 4):
        raise StoreUrlError(
            f"store {shown_url(url)} has {len(slashes)} slashes after the colon; write sqlite:///{rest} for a file in "
            f"this folder, or sqlite:////{rest} for one from the root"
        )
    try:
        path = Path("/" * (len(slashes) - 3) + rest).expanduser().resolve()
        folder = path.is_dir()
    except (OSError, RuntimeError, ValueError) as error:  # too long, a loop of links, no such user, a character 0
        raise StoreUrlError(f"store {shown_url(url)} cannot be a file: {error}; name another file") from None
    if folder:
        raise StoreUrlError(f"store {shown_url(url)} is a folder; name a file in it, e.g. {url.rstrip('/')}/results.db")
    return path


def shown_url(url: str) -> str:
    """The URL as it may be printed. Of a server's nothing but its kind, since the rest may hold a password."""
    scheme = url.partition(":")[0]
    return url.partition("?")[0] if scheme.lower() in SQLITE else f"{scheme}:…"
