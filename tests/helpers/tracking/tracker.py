"""Sweeps that are logged at once, later, or not at all: the sweep goes on whatever the server does."""

from __future__ import annotations

import pytest

from scalable.store.tracking import tracker


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URI", "USERNAME", "PASSWORD", "TOKEN"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    monkeypatch.setattr(tracker, "FIRST_PAUSE_S", 0.05)
