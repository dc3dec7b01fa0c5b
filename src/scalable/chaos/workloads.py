"""Functions that misbehave, one for every way in which work is known to: for tests, and to put into a task of yours.

Those that hang do so for ``seconds`` at most, an hour unless something else is said, so that even without any guard
they end some day. Imports nothing of the package but what one of them needs when it is called.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

LONG_S = 3600.0
PAGE = 4096


def hang_in_lock(seconds: float = LONG_S) -> None:
    """Wait for a lock that nobody gives back: asleep, no CPU."""
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=seconds)


def hang_in_c(seconds: float = LONG_S) -> None:
    """Run C code that keeps the interpreter's lock: no other thread and no signal handler in Python runs."""
    libc = ctypes.PyDLL(None)  # unlike CDLL, does not give the lock back
    until = time.monotonic() + seconds
    while time.monotonic() < until:  # a signal wakes it, and it goes on
        libc.sleep(ctypes.c_uint(max(1, int(min(seconds, until - time.monotonic())))))


def hang_on_child(seconds: float = LONG_S) -> None:
    """Wait for a process of a pool that has hung; what hangs is not what is waited in."""
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.apply(time.sleep, (seconds,))


def spin(seconds: float = LONG_S) -> int:
    """Use all of one CPU and get nowhere."""
    until = time.monotonic() + seconds
    count = 0
    while time.monotonic() < until:
        count += 1
    return count


def stop_itself(seconds: float = LONG_S) -> None:
    """Send SIGSTOP to itself: dead to the world until somebody sends SIGCONT, or the time is over."""
    alarm = os.fork()  # a stopped process cannot wake itself
    if alarm == 0:
        os.setsid()
        code = f"import os, time; time.sleep({seconds}); os.kill({os.getppid()}, {int(signal.SIGCONT)})"
        os.execv(sys.executable, [sys.executable, "-S", "-E", "-c", code])
    os.kill(os.getpid(), signal.SIGSTOP)
    os.kill(alarm, signal.SIGKILL)
    os.waitpid(alarm, 0)


def eat_memory(bytes_in_all: int, seconds: float = 1.0, hold: float = 0.0) -> int:
    """Grow evenly to a size within a time, every page touched, and hold it."""
    steps = 100
    blocks = []
    for _ in range(steps):
        block = bytearray(bytes_in_all // steps)
        block[::PAGE] = b"x" * len(block[::PAGE])
        blocks.append(block)
        time.sleep(seconds / steps)
    time.sleep(hold)
    return sum(map(len, blocks))


def crash(how: str = "segfault") -> None:
    """End the process: by a bad pointer (``segfault``), by ``abort``, or by ``exit`` past all of Python."""
    if how == "segfault":
        ctypes.string_at(1)
    elif how == "abort":
        os.abort()
    elif how == "exit":
        os._exit(3)
    raise ValueError(f"how is {how!r}; write segfault, abort or exit")


def slow_but_progressing(steps: int = 10, each: float = 0.5) -> int:
    """Take time and say so: must never be called stuck."""
    from scalable.worker.runner.stamp import progress

    for step in range(steps):
        progress(step + 1, steps)
        time.sleep(each)
    return steps


def leave_daemon(seconds: float = LONG_S) -> int:
    """Start a process, detached by two forks and a session of its own, and return its id without waiting for it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        daemon = os.fork()
        if daemon:
            os.write(writing, str(daemon).encode())
            os._exit(0)
        code = f"import time; time.sleep({seconds})"
        os.execv(sys.executable, [sys.executable, "-S", "-E", "-c", code])
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        return int(pipe.read())
