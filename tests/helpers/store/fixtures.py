"""Stores for tests: a file, and a place on a real PostgreSQL that is started when the first test asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.store import trouble
from tests.tools.errors import ToolMissingError
from tests.tools.postgres import PrivatePostgres


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A file that does not exist yet."""
    return f"sqlite:///{tmp_path}/results.db"


@pytest.fixture(scope="session", autouse=True)
def children() -> None:
    """Before any test changes the folder."""
    trouble.prepare()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PrivatePostgres]:
    """Shared; a test that stops it starts its own."""
    try:
        server = PrivatePostgres()
    except ToolMissingError as missing:
        pytest.skip(str(missing))
    with server:
        yield server


@pytest.fixture
def server_url(postgres: PrivatePostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty place on it; the outbox is in a folder of the test."""
    monkeypatch.chdir(tmp_path)
    return postgres.new_place()
