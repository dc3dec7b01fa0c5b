"""Memory groups: real ones of version 1 where this machine has them, version 2 on a folder shaped like one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scalable import proc
from scalable.worker.runner.limits import MemoryGroup
from tests.helpers.runner.programs import eventually

MIB = 1 << 20

REASON = MemoryGroup.why_not()

kernel = pytest.mark.skipif(bool(REASON), reason=REASON)


@pytest.fixture
def group() -> Iterator[MemoryGroup]:
    made = MemoryGroup.make("test", 200 * MIB)
    assert made is not None
    yield made
    for pid in made.pids():
        proc.kill([pid])
    eventually(made.close, "an empty group can be removed")
