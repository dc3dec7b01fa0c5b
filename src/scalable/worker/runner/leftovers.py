"""Leftovers of a piece of work in its runner: undone where possible, else named, and the runner is replaced.

Undone after every work: the current folder, closed or replaced streams, the environment, signal handlers, timers, the
umask, processes in sessions of their own, and the pools of joblib and monitors of tqdm, which start again by
themselves. Not to be undone are a thread of Python, another process, and a native thread that computes although nothing
is asked of it: the next work could not fork, and a hang of it would look like work. Pools of native threads that sleep
(OpenMP, BLAS, Rayon) stay, and so do multiprocessing's resource tracker and fork server.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from _signal import getsignal  # type: ignore[import-not-found]  # that of signal makes enums, ten times as slow
from collections.abc import Callable
from contextlib import suppress

from scalable import proc
from scalable.wording import plural
from scalable.worker.runner import guard
from scalable.worker.runner.environment import current_folder
from scalable.worker.runner.output import Output, marked

HELPER = re.compile(rb"from [\w.]*(resource_tracker|forkserver) import main")
"""The command line of a process that multiprocessing or joblib keeps for all that they start later."""
LOKY = ("joblib.externals.loky.reusable_executor", "loky.reusable_executor")
QUIET_WITHIN_S = 0.5  # OpenMP threads spin for up to 0.2 s before they sleep
LISTEN_EVERY_S = 1.0  # between two looks for native threads that spin, so that short work does not pay for them
KEPT = "fsspecIO"  # the thread in which fsspec reads artefacts in object stores; it sleeps while nobody asks
MOST_NAMED = 3  # leftovers that are named in words
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


class Baseline:
    """A runner's process as it was before its first work; ``watch_faults`` puts faulthandler in place again."""

    def __init__(self, outputs: list[Output], watch_faults: Callable[[], object]) -> None:
        self.outputs = outputs
        self.watch_faults = watch_faults
        self.home = current_folder()
        self.environment = variables()
        self.handlers = [(number, getsignal(number)) for number in signal.valid_signals()]
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self.umask = os.umask(0o077)
        os.umask(self.umask)
        self.listened = time.monotonic()

    def adopt(self) -> None:
        """Keep the variables that modules have set while they were imported: they are not imported again."""
        self.environment = variables()

    def restore(self) -> str:
        """Undo what can be undone, and name what cannot; empty if the next work finds nothing of this one."""
        with suppress(OSError):
            os.chdir(self.home)
        self.restore_outputs()
        self.restore_signals()
        os.umask(self.umask)
        self.restore_environment()
        close_pools()
        left = [*threads(), *processes()] or self.spinning()
        more = [f"and {len(left) - MOST_NAMED} more"] if len(left) > MOST_NAMED else []
        return ", ".join((*left[:MOST_NAMED], *more))

    def restore_environment(self) -> None:
        now = variables()
        if now == self.environment:
            return
        for name in now.keys() - self.environment.keys():
            del os.environb[name]
        os.environb.update(self.environment.items() - now.items())

    def restore_outputs(self) -> None:
        for name, number, kept in self.outputs:
            stream = getattr(sys, name, None)
            if stream is None or getattr(stream, "closed", False):
                with suppress(OSError):
                    os.dup2(kept, number)
                    setattr(sys, name, marked(number))

    def restore_signals(self) -> None:
        for timer in TIMERS:
            signal.setitimer(timer, 0)
        changed = [(number, before) for number, before in self.handlers if getsignal(number) is not before]
        for number, before in changed:
            with suppress(OSError, ValueError, TypeError):  # a handler that is not Python's cannot be set from it
                signal.signal(number, before)
        if changed:
            self.watch_faults()
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)

    def spinning(self) -> list[str]:
        """Return native threads that go on computing."""
        if time.monotonic() - self.listened < LISTEN_EVERY_S or guard.native_threads() == 1:
            return []
        deadline = time.monotonic() + QUIET_WITHIN_S
        while (busy := busy_threads()) and time.monotonic() < deadline:
            time.sleep(0.005)
        self.listened = time.monotonic()
        return [f"{plural(busy, 'native thread')} still computing"] if busy else []


def variables() -> dict[bytes, bytes]:
    return dict(os.environ._data)  # type: ignore[attr-defined]  # reading them one by one takes ten times as long


def close_pools() -> None:
    """End what libraries keep for their next call and start again by themselves."""
    for name in LOKY:
        executor = getattr(sys.modules.get(name), "_executor", None)
        if executor is not None:
            with suppress(Exception):  # what it leaves then is seen as a leftover
                executor.shutdown(wait=True, kill_workers=True)
    if "tqdm" in sys.modules:
        for thread in threading.enumerate():
            if type(thread).__module__ == "tqdm._monitor":
                thread.exit()  # type: ignore[attr-defined]


def threads() -> list[str]:
    """Return threads of Python beside this one that do not end by themselves at once."""
    if guard.known_threads() == 1:
        return []
    own = {threading.current_thread(), *(each for each in threading.enumerate() if each.name == KEPT)}
    deadline = time.monotonic() + guard.ENDING_S
    while (left := guard.known_threads() - len(own)) > 0 and time.monotonic() < deadline:
        time.sleep(0.001)
    names = [f"thread {each.name}" for each in threading.enumerate() if each not in own][:left]
    return [*names, *["a thread without a name"] * (left - len(names))]


def processes() -> list[str]:
    """Return living processes of this one that do not end by themselves at once."""
    while end_detached():
        pass  # what they had started is now ours
    deadline = time.monotonic() + guard.ENDING_S
    while (left := living()) and time.monotonic() < deadline:
        time.sleep(0.001)
    return [f"process {process.pid} ({process.name})" for process in left]


def end_detached() -> bool:
    """End the processes that gave themselves a session of their own; whether there were any."""
    detached = [child for child in children() if child.alive and child.session != os.getsid(0)]
    for child in detached:
        with suppress(OSError):
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
    return bool(detached)


def living() -> list[proc.Process]:
    left: list[proc.Process] = []
    for child in children():
        if not child.alive:
            with suppress(OSError):  # the next work must not wait for it in place of its own
                os.waitpid(child.pid, os.WNOHANG)
        elif is_helper(child.pid):
            left += filter(None, map(proc.look, proc.children(child.pid)))
        else:
            left.append(child)
    return left


def children() -> list[proc.Process]:
    return list(filter(None, map(proc.look, proc.children(os.getpid())))) if has_children() else []


def has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def is_helper(pid: int) -> bool:
    with suppress(OSError):
        return HELPER.search(proc.content(f"/proc/{pid}/cmdline")) is not None
    return False


def busy_threads() -> int:
    """Return other threads of this process that use a CPU, or wait for one."""
    own, busy = str(threading.get_native_id()), 0
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208
        with suppress(OSError):
            if thread != own:
                busy += proc.content(f"/proc/self/task/{thread}/stat").rpartition(b")")[2].split()[0] == b"R"
    return busy
