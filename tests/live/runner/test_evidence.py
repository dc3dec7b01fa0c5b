"""Evidence from real processes that are stuck in every way we know of, and from those that cannot be looked at."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from scalable import proc
from scalable.worker.runner import evidence, stacks
from scalable.worker.runner.evidence import Evidence, collect
from tests.helpers.runner.programs import PATIENCE_S, Program, eventually, program

PATIENT_S = 30.0  # tests share the machine; the time itself has tests of its own

NOBODY = 65534

START = """
import faulthandler, multiprocessing, os, signal, sys, threading, time
if len(sys.argv) > 1:
    faulthandler.register(signal.SIGUSR1, file=open(sys.argv[1], "a"), all_threads=True)
def ready():
    print("ready", flush=True)
"""

LOCK = (
    START
    + """
def train():
    lock = threading.Lock()
    lock.acquire()
    ready()
    with lock:
        pass
train()
"""
)

EVENT = (
    START
    + """
def train():
    ready()
    threading.Event().wait()
train()
"""
)

SPIN = (
    START
    + """
def train():
    ready()
    while True: pass
train()
"""
)

GIL = (
    START
    + """
import re
def train():
    ready()
    re.match(r"(a+)+$", "a" * 60 + "b")
train()
"""
)

POOL = (
    START
    + """
def hang(_):
    ready()
    threading.Event().wait()
def train():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(hang, [1])
train()
"""
)

STARTED_POOL = (
    START
    + """
def hang(_):
    ready()
    threading.Event().wait()
def train():
    with multiprocessing.get_context(sys.argv[2]).Pool(2) as pool:
        pool.map(hang, [1])
if __name__ == "__main__":
    train()
"""
)

SLEEP = (
    START
    + """
def train():
    ready()
    time.sleep(600)
train()
"""
)


def line_of(code: str, text: str) -> int:
    return next(number for number, line in enumerate(code.splitlines(), 1) if text in line)


def look(it: Program | int, **options: Any) -> Evidence:
    pid = it if isinstance(it, int) else it.pid
    options = {"fault_file": None, "log": None, "within_s": PATIENT_S, **options}
    return run(collect(pid, **options))


def run(work: Coroutine[Any, Any, Evidence]) -> Evidence:
    return asyncio.run(asyncio.wait_for(work, PATIENCE_S * 2))


def is_stuck(pid: int) -> bool:
    """It waits, and does so a moment later too, without having used the CPU for as long as it takes to see that."""
    before = proc.cpu_s(pid)
    for _ in range(3):
        if proc.state_of(pid) != "waiting" or proc.cpu_s(pid) != before:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture(params=[False, True], ids=["py-spy alone", "with a fault file"])
def fault_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    if not request.param:
        return None
    path = tmp_path / "faults"
    path.write_text("what was told before\n", encoding="utf-8")
    return path


def arguments(fault_file: Path | None) -> list[str]:
    return [str(fault_file)] if fault_file is not None else []


def assert_dumped(found: Evidence, function: str, line: int, fault_file: Path | None) -> None:
    frames = [str(frame) for thread in found.stacks for frame in thread.frames]
    assert f"{function} (work.py:{line})" in frames
    assert f"work.py:{line}" in found.guilty
    assert f"work.py:{line}" in found.text()
    if fault_file is not None:
        assert re.search(rf'work.py", line {line} in {function}', found.faults)
        assert "told before" not in found.faults


@pytest.mark.parametrize(
    ("code", "line", "guilty"),
    [
        (LOCK, "with lock", r"train in work.py:\d+"),
        (EVENT, ".wait()", r"(Condition\.)?wait in threading.py:\d+, called from work.py:\d+ \(train\)"),
        (SPIN, "while True", r"train in work.py:\d+"),
        (GIL, "re.match", r"match in re/__init__.py:\d+, called from work.py:\d+ \(train\)"),
    ],
    ids=["lock", "event", "spinning in Python", "C code that holds the GIL"],
)
def test_the_guilty_frame_is_found(code: str, line: str, guilty: str, fault_file: Path | None, tmp_path: Path) -> None:
    with program(code, *arguments(fault_file), folder=tmp_path) as it:
        at = line_of(code, line)
        works = code in (SPIN, GIL)
        eventually(lambda: proc.cpu_s(it.pid) > 0.2 if works else is_stuck(it.pid), "it is there")
        found = look(it, fault_file=fault_file)
        assert_dumped(found, "train", at, fault_file)
        assert re.fullmatch(guilty, found.guilty)
        assert it.process.poll() is None
        assert proc.state_of(it.pid) in ("running", "waiting")


def test_the_guilty_frame_of_a_hung_child_of_a_pool_is_found(fault_file: Path | None, tmp_path: Path) -> None:
    with program(POOL, *arguments(fault_file), folder=tmp_path) as it:
        at = line_of(POOL, "Event().wait()")
        eventually(lambda: [one.waits_in[:5] for one in evidence.look(it.pid)].count("futex") == 2, "both wait")
        found = look(it, fault_file=fault_file)
        assert_dumped(found, "hang", at, fault_file)
        assert f"called from work.py:{at} (hang)" in found.guilty
        child = next(thread for thread in found.stacks if thread.works and thread.pid != it.pid)
        assert any(f"child {child.pid} was forked and waits for a lock" in note for note in found.notes)
        assert {thread.pid for thread in found.stacks} == set(proc.tree(it.pid))
        assert found.processes[0].pid == it.pid
        assert "train" in found.text()


@pytest.mark.parametrize("way", ["spawn", "forkserver"])
def test_the_guilty_frame_of_a_child_beside_helpers_of_multiprocessing_is_the_users(way: str, tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    faults.touch()
    with program(STARTED_POOL, str(faults), way, folder=tmp_path) as it:
        at = line_of(STARTED_POOL, "Event().wait()")
        eventually(lambda: all(is_stuck(pid) for pid in proc.tree(it.pid)), "all wait")
        assert f"called from work.py:{at} (hang)" in look(it).guilty


def test_the_guilty_frame_of_a_stopped_process_is_found_and_it_stays_stopped(tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    faults.touch()
    with program(SLEEP, str(faults), folder=tmp_path) as it:
        eventually(lambda: is_stuck(it.pid), "it sleeps")
        os.kill(it.pid, signal.SIGSTOP)
        eventually(lambda: proc.state_of(it.pid) == "stopped", "it is stopped")
        found = look(it, fault_file=faults)
        assert found.guilty == f"train in work.py:{line_of(SLEEP, 'time.sleep')}"
        assert found.faults == ""
        assert f"process {it.pid} is stopped (SIGSTOP); kill -CONT {it.pid} lets it go on" in found.notes
        assert found.processes[0].state == "stopped"
        assert proc.state_of(it.pid) == "stopped"


def test_a_stopped_child_is_the_guilty_one(tmp_path: Path) -> None:
    with program(POOL, folder=tmp_path) as it:
        eventually(lambda: len(proc.tree(it.pid)) == 3, "the pool is there")
        eventually(lambda: all(map(is_stuck, proc.tree(it.pid))), "all wait")
        hung = next(thread.pid for thread in look(it).stacks if thread.works and thread.pid != it.pid)
        os.kill(hung, signal.SIGSTOP)
        eventually(lambda: proc.state_of(hung) == "stopped", "it is stopped")
        found = look(it)
        assert "(hang)" in found.guilty
        assert any(f"process {hung} is stopped" in note for note in found.notes)


def test_a_program_that_is_no_python_does_not_hide_the_stacks_of_its_parent(tmp_path: Path) -> None:
    code = START + "import subprocess\ndef train():\n    ready()\n    subprocess.run(['sleep', '600'])\ntrain()\n"
    with program(code, folder=tmp_path) as it:
        asleep = ["sleep 600", "waiting"]
        eventually(lambda: [evidence.look(it.pid)[-1].command, evidence.look(it.pid)[-1].state] == asleep, "its child")
        found = look(it)
        assert f"called from work.py:{line_of(code, 'sleep')} (train)" in found.guilty
        assert any(re.search(r"child \d+ \(sleep 600\) is waiting in \w+", note) for note in found.notes)


def test_without_py_spy_faulthandler_names_the_guilty_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "py_spy", lambda: None)
    faults = tmp_path / "faults"
    faults.touch()
    with program(EVENT, str(faults), folder=tmp_path) as it:
        eventually(lambda: is_stuck(it.pid), "it waits")
        found = look(it, fault_file=faults)
        assert f"called from work.py:{line_of(EVENT, '.wait()')} (train)" in found.guilty
        assert found.stacks_by == "faulthandler"
        assert stacks.MISSING in found.notes
    with program(EVENT, folder=tmp_path) as it:
        assert (found := look(it)).guilty == ""
        assert stacks.MISSING in found.text()


def test_a_process_that_does_not_handle_the_signal_does_not_get_it(tmp_path: Path) -> None:
    """It would die of it."""
    faults = tmp_path / "faults"
    faults.touch()
    with program(SLEEP, folder=tmp_path) as it:
        assert look(it, fault_file=faults).faults == ""
        assert it.process.poll() is None


def test_a_process_that_uses_the_signal_for_itself_does_not_get_it(tmp_path: Path) -> None:
    code = START + "signal.signal(signal.SIGUSR1, lambda *_: os._exit(3))\nready()\ntime.sleep(600)\n"
    faults = tmp_path / "faults"
    faults.touch()
    with program(code, folder=tmp_path) as it:
        look(it, fault_file=faults)
        assert it.process.poll() is None


def test_a_process_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    with program("print('ready', flush=True)") as it:
        it.process.wait()
        found = look(it, fault_file=tmp_path / "none", log=tmp_path / "none")
    assert found.notes == (f"process {it.pid} is gone",)
    assert (found.processes, found.stacks, found.guilty, found.memory) == ((), (), "", 0)
    assert f"process {it.pid} is gone" in found.text()


def test_a_process_that_nobody_collected_is_said_to_have_ended() -> None:
    with program("print('ready', flush=True)") as it:
        eventually(lambda: not proc.alive(it.pid), "its end")
        found = look(it)
        assert found.notes == (f"process {it.pid} has ended; its parent {os.getpid()} has not collected it",)


def test_a_process_may_die_while_it_is_looked_at(tmp_path: Path) -> None:
    async def kill_meanwhile(it: Program) -> Evidence:
        looking = asyncio.ensure_future(collect(it.pid, fault_file=None, log=None))
        await asyncio.sleep(0.01)
        proc.end_tree(it.pid, it.mark)
        return await looking

    for _ in range(3):
        with program(POOL, folder=tmp_path) as it:
            assert isinstance(run(kill_meanwhile(it)), Evidence)


def test_a_process_of_another_user_is_told_of_without_its_stacks() -> None:
    """As root there is no other user's: then a user who is nobody looks at ours."""
    code = f"""
import asyncio, os, sys
sys.path[:0] = {[path for path in sys.path if path]!r}
from scalable.worker.runner.evidence import collect
asyncio.run(collect(os.getpid(), fault_file=None, log=None))  # imports all it needs while it may
if os.geteuid() == 0:
    os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
found = asyncio.run(collect(int(sys.argv[1]), fault_file=None, log=None))
print(found.notes, found.guilty, len(found.processes))
"""
    with program(START + "ready(); time.sleep(600)") as it:
        command = [sys.executable, "-c", code, str(it.pid if os.geteuid() == 0 else 1)]
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=60, check=False)
    assert "may not look into process" in done.stdout, done.stdout + done.stderr
    assert done.stdout.endswith("1\n")


def test_looking_ends_in_time_when_the_reader_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "py-spy"
    slow.write_text("#!/bin/sh\nexec sleep 600\n", encoding="utf-8")
    slow.chmod(0o755)
    monkeypatch.setattr(stacks, "py_spy", lambda: str(slow))
    with program(SLEEP, folder=tmp_path) as it:
        began = time.monotonic()
        found = look(it, within_s=1.0)
        assert time.monotonic() - began < PATIENCE_S  # its program would take ten minutes
        assert any("did not answer" in note for note in found.notes)
    assert not any("sleep 600" in one.command for one in evidence.look(os.getpid()))


def test_this_process_itself_can_be_looked_at() -> None:
    """It must not be paused: nobody could end a reader that hangs."""
    found = look(os.getpid())
    assert any("test_this_process_itself" in str(frame) for thread in found.stacks for frame in thread.frames)


def test_command_lines_logs_and_stacks_hold_no_secrets_and_are_bounded(tmp_path: Path) -> None:
    log = tmp_path / "log"
    key = "-----BEGIN PRIVATE KEY-----\n" + "hunter2\n" * 40 + "-----END PRIVATE KEY-----\n"
    log.write_text("begin\n" * 100_000 + key + f"DB_PASSWORD=hunter2 {'x' * 5000}\nlast\n", encoding="utf-8")
    code = START + "secret_password = 'hunter2'\nos.environ['TOKEN'] = 'hunter2'\n" + SLEEP
    with program(code, "--token", "hunter2", "password=hunter2", "y" * 5000, folder=tmp_path) as it:
        found = look(it, log=log)
    assert "hunter2" not in found.text() + str(found.to_dict())
    assert found.log[-1] == "last"
    assert len(found.log) == evidence.LOG_LINES
    assert max(map(len, found.log)) <= evidence.LONGEST_LINE + 1
    assert len(found.processes[0].command) <= evidence.LONGEST_COMMAND + 1
    assert "--token ***" in found.processes[0].command
    assert found.memory > 1 << 20


def test_evidence_of_many_threads_is_bounded(tmp_path: Path) -> None:
    code = (
        START
        + """
def deep(n):
    if n:
        return deep(n - 1)
    time.sleep(600)
for _ in range(200):
    threading.Thread(target=deep, args=(100,), daemon=True).start()
ready()
time.sleep(600)
"""
    )
    with program(code, folder=tmp_path) as it:
        found = look(it)
    assert len(found.stacks) == evidence.MOST_THREADS
    assert found.stacks[0].main
    assert max(len(thread.frames) for thread in found.stacks) == stacks.MOST_FRAMES
    assert len(found.text()) < 1_000_000


def test_fork_warnings_and_memory_are_in_it() -> None:
    found = look(os.getpid(), fork_warnings=2)
    assert found.to_dict()["fork_warnings"] == 2
    assert "2 forks with threads before" in found.text()


def test_reading_does_not_leave_the_process_stopped(tmp_path: Path) -> None:
    with program(SPIN, folder=tmp_path) as it:
        for _ in range(3):
            look(it)
            eventually(lambda: proc.state_of(it.pid) == "running", "it goes on")


def test_a_kernel_that_does_not_answer_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "look", lambda _: time.sleep(1.0))
    assert look(1, within_s=0.2).notes == ("the kernel does not tell of process 1 within 0.1 s",)
