"""What runs do in these tests."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import scalable


def give_back(value: Any) -> Any:
    return value


def name_process() -> tuple[int, int, int]:
    """The process, its session, and how many threads it has."""
    return os.getpid(), os.getsid(0), threading.active_count()


def environment(*names: str) -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in names}


def eat(mebibytes: int) -> int:
    """Take memory piece by piece, as a run does whose data are too large."""
    held = []
    for _ in range(mebibytes):
        held.append(bytearray(b"x" * (1 << 20)))
        time.sleep(0.0005)
    return len(held)


def child_eats() -> None:
    """A process that it started takes the memory, and it waits for that one's answer."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        eat(2000)
        os._exit(0)
    os.read(reading, 1)
    os.close(writing)


EATING = "import time; held = b'x' * ({0} << 20); time.sleep({1})"


def call_program(mebibytes: int, seconds: float) -> int:
    """Wait for a program that needs memory, as code does that calls a compiled model."""
    return subprocess.run([sys.executable, "-c", EATING.format(mebibytes, seconds)], check=False).returncode


def fork_with(mebibytes: int, children: int) -> int:
    """Take memory and fork; the children have it in common with their parent."""
    held = b"x" * (mebibytes << 20)
    pids = []
    for _ in range(children):
        if (pid := os.fork()) == 0:
            time.sleep(0.5)
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    return len(held)


def segfault() -> None:
    ctypes.string_at(0)


def leave(status: int) -> None:
    os._exit(status)


def wait_for(path: str, within: float = 60.0) -> str:
    """Until a file appears."""
    deadline = time.monotonic() + within
    while not Path(path).exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return path


def tick(times: int, pause: float) -> int:
    for step in range(times):
        scalable.progress(step, times, "ticking")
        time.sleep(pause)
    return times


def stamp_then(hang: str) -> None:
    """Report progress once, then get stuck."""
    scalable.progress(1, 2, "about to hang")
    if hang == "sleep":
        time.sleep(600)
    elif hang == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        while True:
            pass


def daemon(note: str) -> int:
    """Start a process that leaves its parents and their session; its number stands in a file."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            Path(f"{note}.part").write_text(str(os.getpid()))
            Path(f"{note}.part").rename(note)
            time.sleep(600)
        os._exit(0)
    os.wait()
    wait_for(note)
    return int(Path(note).read_text())


def daemon_and_hang(note: str) -> None:
    daemon(note)
    time.sleep(600)


def leave_a_process() -> int:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid


def helper() -> int:
    """A process that multiprocessing keeps for all that it starts later."""
    resource_tracker.ensure_running()
    pid: int = resource_tracker._resource_tracker._pid  # type: ignore[attr-defined]
    return pid


def fork_and_return() -> int:
    """Code that forks and forgets that the child goes on, too."""
    return os.fork()


class Unsendable:
    def __reduce__(self) -> Any:
        raise TypeError("it has an open file")


def unsendable() -> Any:
    return Unsendable()


class OddError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def fail_oddly() -> None:
    raise OddError(1, 2)


def fail_to_connect() -> None:
    raise ConnectionRefusedError("nobody listens there")


def end_a_child() -> int | None:
    """How a process of a pool ends that is told to."""
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    child.start()
    child.terminate()
    child.join(60)
    return child.exitcode
