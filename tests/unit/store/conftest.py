"""Stores of this tier are files, and what they cannot write is tried again at once."""

from __future__ import annotations

import pytest

from tests.helpers.store.fixtures import sqlite_url as url

__all__ = ["url"]


@pytest.fixture(autouse=True)
def quick_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try as often as usual, with hardly a pause between."""
    monkeypatch.setattr("scalable.store.writer.PAUSES_S", (0.001, 0.005))
