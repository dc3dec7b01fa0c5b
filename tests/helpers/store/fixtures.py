"""A real PostgreSQL for the tests of a worker, started when the first one asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.store import trouble
from tests.tools.errors import ToolMissingError
from tests.tools.postgres import PrivatePostgres


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


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/results.db"
    found: str = request.getfixturevalue("server_url")
    return found
