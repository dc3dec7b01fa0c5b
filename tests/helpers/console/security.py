"""Whoever was not shown the address reads nothing and does nothing, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scalable.show.console.guard import Guard
from tests.helpers.browser.serving import served
from tests.helpers.console.client import Client
from tests.helpers.observe.builders import a_run, sweep_started

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guard]:
    runs = tmp_path_factory.mktemp("runs")
    a_run(runs, sweep_started(HOSTILE))
    with served(runs) as found:
        yield found


@pytest.fixture
def client(guard: Guard) -> Client:
    return Client(guard)
