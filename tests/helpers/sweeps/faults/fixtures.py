"""Miniature sweeps of which nothing lives on, and a PostgreSQL that may be stopped, killed and started again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.store.fixtures import postgres
from tests.helpers.sweeps.faults.miniature import Miniature
from tests.tools.errors import ToolMissingError
from tests.tools.postgres import PrivatePostgres

__all__ = ["postgres"]

Make = Callable[..., Miniature]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes miniatures, each in a folder of its own unless one is named."""
    made: list[Miniature] = []

    def new(folder: Path | None = None, **options: Any) -> Miniature:
        made.append(Miniature(folder or tmp_path / f"sweep-{len(made)}", **options))
        return made[-1]

    yield new
    for one in made:
        one.end()


@pytest.fixture
def own_postgres() -> Iterator[PrivatePostgres]:
    """One that a test may ill-treat; what is committed there is on disk."""
    try:
        server = PrivatePostgres(fsync=False)
    except ToolMissingError as missing:
        pytest.skip(str(missing))
    with server:
        yield server
