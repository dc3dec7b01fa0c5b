"""While the database cannot be written, rows wait in the outbox, the caller is told, and they follow later."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalable.store import open_store

NEVER_S = 600.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "results.db"
    open_store(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"
