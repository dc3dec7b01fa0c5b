"""The store keeps what every store promises, in an SQLite file and on a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scalable.store import Store, open_store
from scalable.testing.store import StoreContract


class TestSqlite(StoreContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], Store]:
        return lambda: open_store(f"sqlite:///{tmp_path}/results.db")


class TestPostgresql(StoreContract):
    @pytest.fixture
    def open_store(self, server_url: str) -> Callable[[], Store]:
        return lambda: open_store(server_url)
