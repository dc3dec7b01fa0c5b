"""Nothing outlives a test's played API server: a reaper would ask it for an hour whether all is deleted."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from uuid import uuid4

import pytest

from scalable import proc

MARK = "PLAYED_KUBERNETES"  # in the environment of all that a test starts


@pytest.fixture(autouse=True)
def no_reaper_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    mark = uuid4().hex
    monkeypatch.setenv(MARK, mark)
    yield
    for pid in proc.marked(MARK, mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
