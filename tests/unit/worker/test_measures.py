"""What a worker measures: itself with all it has started, and its machine, by the clock it is given."""

from __future__ import annotations

import os

from scalable import proc
from scalable.worker.measures import FRESH_S, WorkerMeasures, busy_s, node_memory
from tests.helpers.worker.measures import Clock, tree_cpu_s


def test_cpu_use_is_that_since_the_last_look_in_cores() -> None:
    clock = Clock()
    measures = WorkerMeasures(clock)
    began = tree_cpu_s(os.getpid())
    assert measures.reading()["cpu"] == 0, "there was no look before the first"
    while tree_cpu_s(os.getpid()) - began < 0.3:
        sum(range(100_000))
    clock.now = 0.5
    told = measures.reading()
    used = tree_cpu_s(os.getpid()) - began
    assert 0.5 < told["cpu"] / (used / 0.5) < 1.5
    assert 0 < told["node_cpu"] <= told["node_cpus"] == os.cpu_count()
    clock.now = 100.5
    assert measures.reading()["cpu"] < told["cpu"]


def test_who_asks_again_within_a_moment_gets_the_same_answer() -> None:
    clock = Clock()
    measures = WorkerMeasures(clock)
    first = measures.reading()
    clock.now = FRESH_S / 2
    assert measures.reading() == first


def test_the_machine_has_more_memory_than_is_free_and_its_cpus_have_worked() -> None:
    total, available = node_memory()
    assert 0 < available < total <= proc.PAGE * os.sysconf("SC_PHYS_PAGES")
    before = busy_s()
    assert before > 0
    while busy_s() <= before:  # this very loop lets it grow
        sum(range(100_000))
