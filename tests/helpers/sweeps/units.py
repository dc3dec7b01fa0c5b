"""A unit computes each distinct stage once, goes on from what is kept, and tells of failures row by row."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scalable.sweeps import units
from tests.helpers.sweeps.builders import CALLS


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    units.RECENT.clear()
    CALLS.clear()
    yield
    units.RECENT.clear()
