"""What a worker measures: itself with all it has started, and its machine, by the clock it is given."""

from __future__ import annotations

import os
import subprocess
import sys

from scalable import proc
from scalable.worker.measures import FRESH_S, Measures, busy_s, node_memory

HOLD = "import sys; held = bytearray(80 << 20); held[::4096] = b'x' * len(held[::4096]); print(1, flush=True); input()"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_memory_is_that_of_all_processes_a_worker_has_started() -> None:
    clock = Clock()
    measures = Measures(clock)
    before = measures.told()["memory"]
    with subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.readline()
        clock.now += 1
        held = measures.told()["memory"]
        child.stdin.close()
    assert held - before > 80 << 20
    clock.now += 1
    assert measures.told()["memory"] < held - (60 << 20)


def test_cpu_use_is_that_since_the_last_look_in_cores() -> None:
    clock = Clock()
    measures = Measures(clock)
    began = proc.tree_cpu_s(os.getpid())
    assert measures.told()["cpu"] == 0, "there was no look before the first"
    while proc.tree_cpu_s(os.getpid()) - began < 0.3:
        sum(range(100_000))
    clock.now = 0.5
    told = measures.told()
    used = proc.tree_cpu_s(os.getpid()) - began
    assert 0.5 < told["cpu"] / (used / 0.5) < 1.5
    assert 0 < told["node_cpu"] <= told["node_cpus"] == os.cpu_count()
    clock.now = 100.5
    assert measures.told()["cpu"] < told["cpu"]


def test_who_asks_again_within_a_moment_gets_the_same_answer() -> None:
    clock = Clock()
    measures = Measures(clock)
    first = measures.told()
    clock.now = FRESH_S / 2
    assert measures.told() == first


def test_the_machine_has_more_memory_than_is_free_and_its_cpus_have_worked() -> None:
    total, available = node_memory()
    assert 0 < available < total <= proc.PAGE * os.sysconf("SC_PHYS_PAGES")
    before = busy_s()
    assert before > 0
    while busy_s() <= before:  # this very loop lets it grow
        sum(range(100_000))
