"""A store on a server keeps what every store promises."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalable.store import Store, open_store
from scalable.testing.store import StoreContract


class TestPostgresql(StoreContract):
    @pytest.fixture
    def open_store(self, url: str) -> Callable[[], Store]:
        return lambda: open_store(url)
