"""A store's URL: the file or server it names, where its outboxes lie, and how it may be shown.

Nothing that is shown holds a password. Of a URL that is refused only its kind is shown, since what is wrong with it may
be a password in an unexpected place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from scalable.store.errors import StoreUrlError

EXAMPLE = "sqlite:///.scalable/results.db"
SERVER_EXAMPLE = "postgresql://user@host/database"
URL = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*):(?P<slashes>/*)(?P<rest>.*)", re.DOTALL)
SQLITE = ("sqlite", "sqlite+pysqlite")
POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")
OUTBOXES = Path(".scalable/outbox")  # beside the other files of a project; a server has no folder of its own here
MANY_ATS = "write @ : / ? # and % of a password as %40 %3A %2F %3F %23 and %25, or leave it to PGPASSWORD or ~/.pgpass"


@dataclass(frozen=True, slots=True)
class DatabaseServer:
    """A PostgreSQL and a database on it; what is None, libpq finds in its own variables and files."""

    database: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    host: str | None = None
    port: int | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def identity(self) -> str:
        """The same for all URLs of one database: a changed password must not hide what waits for it."""
        host = self.host or self.options.get("host") or self.options.get("hostaddr") or ""
        port = self.port or self.options.get("port") or ""
        return f"{host}:{port}/{self.database} {self.options.get('options', '')}"  # which may name a schema


@dataclass(frozen=True, slots=True)
class Location:
    shown: str
    """The URL as it may be printed."""
    at: Path | DatabaseServer
    beside: Path
    """Outboxes lie beside this path and take their names from it."""


def location_of(url: str, folder: Path | None = None) -> Location:
    """Return what a URL names; outboxes of a server lie in the project's ``folder``, else in the current one."""
    scheme = scheme_of(url)
    if scheme in POSTGRESQL:
        server = server_of(url)
        name = blake2b(server.identity.encode(), digest_size=8).hexdigest()
        return Location(shown_url(url), server, (folder or Path()).absolute() / OUTBOXES / name / "results")
    path = file_of(url)
    return Location(shown_url(url), path, path)


def rooted(url: str, folder: Path) -> str:
    """Return a store's URL with a relative file seen from ``folder``; any other URL as it is."""
    scheme, slashes, rest = url.partition(":///")
    relative = slashes and scheme.lower() in SQLITE and rest and not rest.startswith(("/", "~", ":memory:"))
    return f"{scheme}{slashes}{folder.absolute() / rest}" if relative else url


def scheme_of(url: str) -> str:
    if not isinstance(url, str):
        raise StoreUrlError(f"a store's URL is a text, not a {type(url).__name__}; write {EXAMPLE}")
    parts = URL.fullmatch(url)
    if not parts:
        shown, meant = ("this", "results.db") if "@" in url else (repr(url), url or "results.db")  # no password
        raise StoreUrlError(f"{shown} is not a store's URL; write sqlite:///{meant}")
    scheme = parts["scheme"].lower()
    if scheme not in SQLITE + POSTGRESQL:
        raise StoreUrlError(f"store {scheme}:…: {scheme} is not supported; write {EXAMPLE} or {SERVER_EXAMPLE}")
    return scheme


def file_of(url: str) -> Path:
    """Return the file of a URL ``sqlite:///relative/path.db`` or ``sqlite:////absolute/path.db``."""
    if scheme_of(url) not in SQLITE:
        raise StoreUrlError(f"store {shown_url(url)} is a server, not a file; name a file, e.g. {EXAMPLE}")
    parts = URL.fullmatch(url)
    assert parts
    slashes, rest = parts["slashes"], parts["rest"]
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


def server_of(url: str) -> DatabaseServer:
    """Return the server of a URL ``postgresql://user:password@host:port/database?sslmode=require``."""

    def refuse(what: str, remedy: str = f"write {SERVER_EXAMPLE}") -> StoreUrlError:
        return StoreUrlError(f"store {url.partition(':')[0]}:… {what}; {remedy}")

    if "\0" in url:
        raise refuse("has a character 0")
    if URL.fullmatch(url)["slashes"] not in ("//", "///"):  # type: ignore[index]  # scheme_of has looked
        raise refuse("needs two slashes after the colon")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise refuse("has a host or port that cannot be read", MANY_ATS) from None
    if url.count("@") != parts.netloc.count("@") or parts.netloc.count("@") > 1 or parts.fragment:
        raise refuse("has an @ or # in an unexpected place", MANY_ATS)
    database = unquote(parts.path[1:])
    if not database or "/" in parts.path[1:]:
        raise refuse("names no database")
    options = parse_qsl(parts.query, keep_blank_values=True)
    if len(dict(options)) != len(options):
        raise refuse("has an option twice", "write it once")
    return DatabaseServer(
        database,
        unquote(parts.username) if parts.username else None,
        unquote(parts.password) if parts.password else None,
        unquote(parts.hostname) if parts.hostname else None,
        port,
        dict(options),
    )


def shown_url(url: str) -> str:
    """Return the URL as it may be printed: without password and options. One that cannot be read is not shown.

    A file below the current folder is shown as seen from here.
    """
    scheme = url.partition(":")[0]
    if scheme.lower() in SQLITE:
        return url.partition("?")[0].replace(f":///{Path.cwd()}/", ":///", 1)
    try:
        server = server_of(url) if scheme.lower() in POSTGRESQL else None
    except StoreUrlError:
        server = None
    if server is None:
        return f"{scheme}:…"
    user = f"{server.user}@" if server.user else ""
    port = f":{server.port}" if server.port else ""
    return f"postgresql://{user}{server.host or ''}{port}/{server.database}"
