"""``PrivatePostgres``: a real PostgreSQL in a folder of its own, with a socket and a free port; it ends with its test.

It runs as somebody else than root, which it refuses, and is told by the kernel to end if this process dies.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.tools import system
from tests.tools.errors import ToolError

ROLE = "scalable"  # who may do everything, without a password
READY_S = 60.0  # a second is usual; a busy machine is forgiven
POLL_S = 0.02
SETTINGS = """
unix_socket_directories = '{folder}'
listen_addresses = '127.0.0.1'
port = {port}
fsync = {fsync}
shared_buffers = 32MB
max_connections = 60
autovacuum = off
log_min_messages = fatal
"""
WITH_PASSWORD = "host all locked 127.0.0.1/32 scram-sha-256\n"


def programs() -> Path:
    """The folder of the newest PostgreSQL that Debian's package brought."""
    system.require(system.POSTGRES_PROGRAMS)
    return max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))


class PrivatePostgres:
    """Started by ``with``; ``stop`` and ``start`` in between are allowed, and everything is gone at the end."""

    def __init__(self, *, fsync: bool = True) -> None:
        self.bin = programs()
        self.fsync = fsync
        self.folder = Path(tempfile.mkdtemp(prefix="private-postgres-", dir="/tmp"))
        self.data = self.folder / "data"
        self.port = free_port()
        self._server: subprocess.Popen[bytes] | None = None
        self._numbers = count(1)

    def __enter__(self) -> Self:
        if os.geteuid() == 0:
            owner = pwd.getpwnam(somebody())
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        try:
            self._initialise()
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def url(self, database: str = "postgres", *, user: str = ROLE, password: str = "", **options: str) -> str:
        secret = f":{password}" if password else ""
        given = "&".join(f"{name}={value}" for name, value in options.items())
        return f"postgresql://{user}{secret}@127.0.0.1:{self.port}/{database}{'?' if given else ''}{given}"

    def new_place(self) -> str:
        """The URL of an empty schema, which is made in an instant, as a whole database is not."""
        name = f"place_{os.getpid()}_{next(self._numbers)}"
        self.execute(f"CREATE SCHEMA {name}")
        return self.url(options=f"-csearch_path%3D{name}")

    def execute(self, statement: str, url: str = "") -> list[Any]:
        """Run one statement outside of any transaction; the rows it gives."""
        with self.connection_to(url or self.url()) as connection:
            cursor = connection.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    @staticmethod
    @contextmanager
    def connection_to(url: str) -> Iterator[Any]:
        import psycopg

        with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
            yield connection

    def start(self) -> None:
        assert self._server is None
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [*self._as_somebody(), str(self.bin / "postgres"), "-D", str(self.data)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until = time.monotonic() + READY_S
        while not self._answers():
            if self._server.poll() is not None or time.monotonic() > until:
                raise ToolError(
                    f"PostgreSQL did not start: {(self.folder / 'log').read_text(errors='replace')[-2000:]}"
                )
            time.sleep(POLL_S)

    def stop(self, *, immediate: bool = False) -> None:
        """End it: with its connections but in order, or at once as a crash would."""
        if self._server is None:
            return
        self._server.send_signal(signal.SIGQUIT if immediate else signal.SIGINT)
        try:
            self._server.wait(READY_S)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait(READY_S)
        self._server = None

    def _answers(self) -> bool:
        import psycopg

        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _initialise(self) -> None:
        options = ["-A", "trust", "-U", ROLE, "-E", "UTF8", "--locale=C", "--no-sync"]
        made = subprocess.run(
            [*self._as_somebody(), str(self.bin / "initdb"), "-D", str(self.data), *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=READY_S,
        )
        if made.returncode:
            raise ToolError(f"initdb failed: {made.stderr.strip()}")
        settings = SETTINGS.format(folder=self.folder, port=self.port, fsync="on" if self.fsync else "off")
        with (self.data / "postgresql.conf").open("a", encoding="ascii") as file:
            file.write(settings)
        rules = self.data / "pg_hba.conf"
        rules.write_text(WITH_PASSWORD + rules.read_text(encoding="utf-8"), encoding="utf-8")

    def _as_somebody(self) -> list[str]:
        user = ["--reuid", somebody(), "--regid", somebody_group(), "--clear-groups"] if os.geteuid() == 0 else []
        return ["setpriv", *user, "--pdeathsig", "INT"]

    def _remove(self) -> None:
        with suppress(OSError):
            self.stop(immediate=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def somebody() -> str:
    """Debian's user for it, or nobody."""
    with suppress(KeyError):
        return pwd.getpwnam("postgres").pw_name
    return "nobody"


def somebody_group() -> str:
    return str(pwd.getpwnam(somebody()).pw_gid)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
