"""Pages that stay open: they hear what happens in a run, of a run that begins, and do not hold up each other."""

from __future__ import annotations

import pytest

from scalable.show.console import feed as feeds
from scalable.show.console import runs


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look more often than a person could follow."""
    monkeypatch.setattr(feeds, "EVERY_S", 0.05)
    monkeypatch.setattr(feeds, "OVER_EVERY_S", 0.05)
    monkeypatch.setattr(runs, "LATEST_EVERY_S", 0.05)
