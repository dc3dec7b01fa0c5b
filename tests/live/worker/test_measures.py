"""What a worker measures: itself with all it has started, and its machine, by the clock it is given."""

from __future__ import annotations

import subprocess
import sys

from scalable.worker.measures import WorkerMeasures
from tests.helpers.worker.measures import Clock

HOLD = "import sys; held = bytearray(80 << 20); held[::4096] = b'x' * len(held[::4096]); print(1, flush=True); input()"


def test_memory_is_that_of_all_processes_a_worker_has_started() -> None:
    clock = Clock()
    measures = WorkerMeasures(clock)
    before = measures.reading()["memory"]
    with subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.readline()
        clock.now += 1
        held = measures.reading()["memory"]
        child.stdin.close()
    assert held - before > 80 << 20
    clock.now += 1
    assert measures.reading()["memory"] < held - (60 << 20)
