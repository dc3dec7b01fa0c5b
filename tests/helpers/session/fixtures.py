"""Every test has a folder of its own as the current one, where its manifest and its runs lie."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.session.builders import Project
from tests.helpers.settings import remove_settings
from tests.helpers.waiting import until


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """Whatever a test does, no event loop of its own outlives it."""
    before = loops()
    remove_settings(monkeypatch)
    monkeypatch.setenv("SCALABLE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    yield Project(tmp_path)
    assert until(lambda: not loops() - before), f"an event loop outlives the test:\n{stacks()}"


def loops() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "IO loop"}


def stacks() -> str:
    """Where every thread is now."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found = [(names.get(ident, "?"), traceback.format_stack(frame)) for ident, frame in sys._current_frames().items()]
    return "\n".join(f"{name}:\n{''.join(lines)}" for name, lines in found)
