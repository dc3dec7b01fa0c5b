"""What Linux tells of processes: who belongs to whom, what they use, and how all of them end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scalable import proc
from tests.helpers.waiting import until
from tests.helpers.worker.measures import tree_cpu_s

FAMILY = """
import subprocess, sys, time
child = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
here = subprocess.Popen(child, stdout=subprocess.PIPE)
apart = subprocess.Popen(child, stdout=subprocess.PIPE, start_new_session=True)
here.stdout.readline(), apart.stdout.readline()  # starting takes CPU time
print(here.pid, apart.pid, flush=True)
time.sleep(600)
"""


@contextmanager
def a_family() -> Iterator[tuple[int, list[int]]]:
    """A process with a child in its group and one in a session of its own."""
    parent = subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert parent.stdout is not None
    children = [int(pid) for pid in parent.stdout.readline().split()]
    try:
        yield parent.pid, children
    finally:
        proc.kill([parent.pid, *children])
        parent.communicate()


def gone(pids: list[int]) -> bool:
    return until(lambda: not any(proc.alive(pid) for pid in pids))


def test_a_tree_has_all_descendants() -> None:
    with a_family() as (parent, children):
        assert sorted(proc.tree(parent)) == sorted([parent, *children])
        assert proc.tree(parent)[0] == parent
        assert set(proc.tree(parent)) < set(proc.tree(os.getpid()))


def test_a_whole_tree_can_be_killed() -> None:
    with a_family() as (parent, children):
        proc.kill_tree(parent)
        assert gone([parent, *children])


def test_memory_of_a_tree_is_that_of_all_its_processes() -> None:
    with a_family() as (parent, children):
        alone = proc.resident(parent)
        assert alone > 2**20
        assert proc.tree_resident(parent) >= alone + sum(proc.resident(child) for child in children) * 0.5


def test_cpu_time_grows_with_work_and_not_without() -> None:
    before = proc.cpu_s(os.getpid())
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    assert 0.2 <= proc.cpu_s(os.getpid()) - before < 10
    with a_family() as (parent, _):
        first = tree_cpu_s(parent)
        time.sleep(0.3)
        assert tree_cpu_s(parent) - first < 0.2


def test_a_process_that_is_gone_uses_nothing_and_can_be_killed_again() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert (proc.resident(ended.pid), proc.cpu_s(ended.pid), proc.alive(ended.pid)) == (0, 0.0, False)
    assert proc.tree(ended.pid) == [ended.pid]
    proc.kill_tree(ended.pid)


def test_a_zombie_is_not_alive() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    assert gone([ended.pid])
    assert Path(f"/proc/{ended.pid}").exists()
    ended.wait()
