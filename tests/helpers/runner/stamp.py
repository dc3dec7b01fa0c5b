"""The progress stamp: read while it is written, from threads, forks and the dead, and with whatever users report."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from scalable.worker.runner import stamp
from scalable.worker.runner.stamp import Stamp


@pytest.fixture
def page() -> Iterator[Stamp]:
    """The supervisor's end; this process is the child as well."""
    made = Stamp.create()
    mine = Stamp.attach(os.dup(made.fd))
    stamp.use(mine)
    yield made
    mine.close()
    made.close()
