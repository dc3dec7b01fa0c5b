"""Every test has a folder of its own as the current one, where its manifest and its runs lie."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.session.builders import Project
from tests.waiting import until


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """Whatever a test does, no event loop outlives it."""
    for name in [name for name in os.environ if name.startswith("SCALABLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SCALABLE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    yield Project(tmp_path)
    assert until(lambda: "IO loop" not in {thread.name for thread in threading.enumerate()}, 10)
