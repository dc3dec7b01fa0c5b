"""Ending process trees: whatever they do to stay, and nothing else."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from scalable import proc
from tests.helpers.runner.programs import MARK, PATIENCE_S, Program, eventually, program

SAY = "import os, signal, subprocess, sys, time; say = lambda: print('ready', flush=True)\n"
DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
"""


def assert_ended(started: Program, killed: int, at_least: int) -> None:
    assert killed >= at_least
    assert started.members() == []
    assert started.process.wait(PATIENCE_S) == -signal.SIGKILL
    assert proc.look(started.pid) is None  # reaped by us, and not by anyone before


def test_a_tree_is_ended_with_children_and_grandchildren_that_ignore_signals() -> None:
    deaf = "for n in set(range(1, 32)) - {9, 17, 19, 32, 33}:\n    signal.signal(n, signal.SIG_IGN)\n"
    with program(
        SAY
        + deaf
        + "os.fork(); os.fork()\nif os.getppid(): say() if os.getpid() == os.getsid(0) else 0\ntime.sleep(600)"
    ) as it:
        eventually(lambda: len(it.members()) == 4, "four processes")
        assert_ended(it, proc.end_tree(it.pid), 4)


def test_a_daemon_that_left_its_session_and_its_parents_is_found_by_its_mark() -> None:
    with program(SAY + DAEMON + "say(); time.sleep(600)") as it:
        left = [pid for pid in it.members() if pid not in proc.tree(it.pid)]
        assert len(left) == 1
        assert_ended(it, proc.end_tree(it.pid, it.mark), 2)
        assert not proc.alive(left[0])


def test_a_daemon_stays_in_the_tree_of_a_process_that_adopts_it() -> None:
    adopt = "import ctypes; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
    with program(SAY + adopt + DAEMON + "say(); time.sleep(600)") as it:
        assert_ended(it, proc.end_tree(it.pid), 2)


def test_without_a_mark_the_rest_of_the_session_is_ended_too() -> None:
    orphan = "if os.fork() == 0:\n    if os.fork() == 0: time.sleep(600)\n    os._exit(0)\nos.wait()\n"
    with program(SAY + orphan + "say(); time.sleep(600)") as it:
        assert len(proc.tree(it.pid)) == 1
        assert_ended(it, proc.end_tree(it.pid), 2)


def test_a_root_that_has_died_already_leaves_no_children() -> None:
    with program(SAY + "subprocess.Popen(['sleep', '600']); say(); os.kill(os.getpid(), 9)") as it:
        eventually(lambda: not proc.alive(it.pid), "its end")
        assert len(it.members()) == 1
        assert_ended(it, proc.end_tree(it.pid), 1)


def test_stopped_processes_are_ended() -> None:
    with program(SAY + "os.fork()\nif os.getpid() == os.getsid(0): say()\nos.kill(os.getpid(), 19)") as it:
        eventually(lambda: [proc.state_of(pid) for pid in it.members()] == ["stopped", "stopped"], "both stop")
        assert_ended(it, proc.end_tree(it.pid), 2)


@pytest.mark.parametrize("leaves", [False, True], ids=["stays", "leaves its session"])
def test_a_tree_that_forks_all_the_time_is_ended(leaves: bool) -> None:
    """Every child forks the next and ends soon after: no look sees the same processes twice."""
    chain = f"""
until = time.monotonic() + 60
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    while time.monotonic() < until:
        time.sleep(0.01)
        if os.fork() == 0:
            if {leaves}: os.setsid()
            continue
        time.sleep(0.01)
        os._exit(0)
say(); time.sleep(600)
"""
    with program(SAY + chain) as it:
        time.sleep(0.2)  # let it fork for a while
        eventually(lambda: len(it.members()) > 1, "a child")
        assert_ended(it, proc.end_tree(it.pid, it.mark), 2)
        time.sleep(0.1)
        assert it.members() == []


def test_a_tree_that_grows_is_ended() -> None:
    grow = """
until = time.monotonic() + 60
say()
while time.monotonic() < until:
    time.sleep(0.05)
    if os.fork() == 0:
        time.sleep(600)
"""
    with program(SAY + grow) as it:
        eventually(lambda: len(it.members()) > 30, "many processes")
        assert_ended(it, proc.end_tree(it.pid, it.mark), 30)


def test_a_process_waiting_for_its_vforked_child_is_ended() -> None:
    """It cannot be stopped: the kernel lets it wait until the child runs a program of its own."""
    code = (
        SAY
        + """
import ctypes
libc = ctypes.CDLL(None)
say()
if libc.vfork() == 0:
    libc.pause()
"""
    )
    with program(code) as it:
        eventually(lambda: len(it.members()) == 2, "both")
        assert_ended(it, proc.end_tree(it.pid, it.mark), 2)


def test_neighbours_are_left_alone_also_those_with_a_similar_mark() -> None:
    with program(SAY + "say(); time.sleep(600)") as other, program(SAY + "say(); time.sleep(600)") as it:
        longer = {**os.environ, MARK: it.mark[1] + "0"}
        neighbour = subprocess.Popen(["sleep", "600"], env=longer)
        try:
            assert proc.end_tree(it.pid, it.mark) == 1
            assert proc.alive(other.pid)
            assert neighbour.poll() is None
        finally:
            neighbour.kill()
            neighbour.wait()


def test_a_number_that_now_means_another_process_is_not_touched() -> None:
    with program(SAY + "say(); time.sleep(600)") as it:
        found = proc.look(it.pid)
        assert found is not None
        assert proc.end_tree(it.pid, started=found.started - 1) == 0
        assert proc.alive(it.pid)
        assert proc.end_tree(it.pid, started=found.started) == 1


def test_who_asks_is_never_ended_even_if_it_has_the_mark_itself() -> None:
    """A marked process ends all that have its mark but itself; its parents are spared as well."""
    code = (
        SAY
        + f"""
sys.path[:0] = {sys.path!r}
from scalable import proc
child = subprocess.Popen(["sleep", "600"])
assert proc.end_tree(os.getppid(), ({MARK!r}, os.environ[{MARK!r}])) == 1
assert child.wait() == -9
say()
"""
    )
    with program(code) as it:
        assert it.process.wait(PATIENCE_S) == 0


def test_who_asks_is_not_taken_for_another_by_the_number_of_a_new_thread() -> None:
    code = (
        SAY
        + f"""
sys.path[:0] = {sys.path!r}
import threading
from scalable import proc
def start_threads():
    while True:
        threading.Thread(target=time.sleep, args=(0.05,)).start()
        time.sleep(0.001)
threading.Thread(target=start_threads, daemon=True).start()
for _ in range(10):
    assert proc.end_tree(0, ({MARK!r}, os.environ[{MARK!r}])) == 0
say()
os._exit(0)
"""
    )
    with program(code) as it:
        assert it.process.wait(PATIENCE_S) == 0


def test_what_was_adopted_from_a_tree_is_not_left_as_a_zombie() -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(36, 1, 0, 0, 0)
    try:
        with program(SAY + DAEMON + "say(); time.sleep(600)") as it:
            adopted = [pid for pid in it.members() if pid != it.pid]
            assert proc.children(os.getpid()) and len(adopted) == 1
            assert proc.end_tree(it.pid, it.mark) == 2
            assert proc.look(adopted[0]) is None
            assert it.process.wait(PATIENCE_S) == -signal.SIGKILL  # our own child was left for us
    finally:
        libc.prctl(36, 0, 0, 0, 0)


def test_a_process_that_is_gone_is_nothing_to_end() -> None:
    with program("print('ready', flush=True)") as it:
        it.process.wait()
        assert proc.end_tree(it.pid, it.mark) == 0
        assert (proc.look(it.pid), proc.state_of(it.pid), proc.cpu_s(it.pid)) == (None, "gone", 0.0)


def test_ending_waits_for_nothing_when_nothing_resists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "STOP_WITHIN_S", 10 * PATIENCE_S)
    monkeypatch.setattr(proc, "END_WITHIN_S", 10 * PATIENCE_S)
    with program(SAY + "say(); time.sleep(600)") as it:
        began = time.monotonic()
        proc.end_tree(it.pid, it.mark)
        assert time.monotonic() - began < PATIENCE_S


def test_marks_are_found_only_where_they_are_whole(tmp_path: Path) -> None:
    with program(SAY + "say(); time.sleep(600)") as it:
        name, value = it.mark
        assert proc.marked(name, value) == [it.pid]
        assert proc.marked(name, value[:-1]) == proc.marked(name[1:], value) == []


def test_states_are_told_in_words() -> None:
    with program(SAY + "say(); time.sleep(600)") as it:
        eventually(lambda: proc.state_of(it.pid) == "waiting", "sleep")
        os.kill(it.pid, signal.SIGSTOP)
        eventually(lambda: proc.state_of(it.pid) == "stopped", "stop")
        os.kill(it.pid, signal.SIGKILL)
        eventually(lambda: proc.state_of(it.pid) == "ended, not collected by its parent", "end")


def test_a_process_whose_first_thread_has_ended_is_alive_and_can_be_ended() -> None:
    code = (
        SAY
        + """
import ctypes, threading
def stay():
    say(); time.sleep(600)
threading.Thread(target=stay).start()
ctypes.CDLL(None).syscall(60, 0)
"""
    )
    with program(code) as it:
        eventually(lambda: (found := proc.look(it.pid)) is not None and found.state == "Z", "its first thread ends")
        assert proc.alive(it.pid)
        assert proc.end_tree(it.pid) == 1
        eventually(lambda: it.process.poll() is not None, "its end")


def test_several_trees_can_be_ended_at_once() -> None:
    with (
        program(SAY + "say(); os.fork(); time.sleep(600)") as one,
        program(SAY + "say(); os.fork(); time.sleep(600)") as two,
    ):
        threads = [threading.Thread(target=proc.end_tree, args=(it.pid, it.mark)) for it in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert one.members() == two.members() == []
