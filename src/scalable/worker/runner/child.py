"""The child: takes one piece of work after the other, calls it and answers. Has one thread and no Dask in it.

Everything that protects it is in place before the user's first import: the fork guard, the page for its progress, the
handler that prints its stacks on SIGUSR1, its death with its worker, and being the first victim when memory runs out.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import pickle
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from scalable import proc
from scalable.worker.runner import ends, guard, notes, output
from scalable.worker.runner.leftovers import Baseline
from scalable.worker.runner.memory import ReapedChildren
from scalable.worker.runner.stamp import Stamp, use
from scalable.worker.runner.wire import LARGEST, LINE_CLOSED, Line, MessageKind, pack

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_PTRACER = 1, 36, 0x59616D61  # see prctl(2)
ANYONE = ctypes.c_ulong(-1)  # of the same user may look into it: py-spy is no ancestor of it
FIRST_VICTIM = "1000"  # of the kernel when memory runs out, before the worker and its neighbours
TASK_RESULT = "TaskResult"  # of the module calls, which is not imported without need: runners start in a moment
MEASURED_S = 0.01  # a run's peak is measured from this length on; a shorter one has the peak of its neighbours


BY_HAND = """python -m scalable.worker.runner is started by a worker, for the runs that it is given.
To run something, write  scalable run  or, in Python, client.submit(function, ..., guarded=True).
"""


def main() -> int:
    try:
        settings = dict(json.loads(sys.argv[1]))
    except (IndexError, TypeError, ValueError):
        sys.stderr.write(BY_HAND)
        return 2
    line = Line(socket.socket(fileno=settings["line"]))
    end_with(settings["parent"])
    page = Stamp.attach(settings["stamp"])
    use(page)
    fault_file = os.fdopen(settings["faults"], "w")

    def watch_faults() -> None:
        """Register a handler of Python as well, so that code which sets another is noticed and can be undone."""
        faulthandler.disable()
        faulthandler.unregister(signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, lambda number, frame: faulthandler.dump_traceback(fault_file, all_threads=True))
        faulthandler.enable(fault_file)
        faulthandler.register(signal.SIGUSR1, fault_file, all_threads=True)

    watch_faults()
    own = os.getpid()

    def noted(facts: dict[str, Any]) -> None:
        if os.getpid() == own:
            line.send(MessageKind.NOTED, json.dumps(facts, ensure_ascii=False).encode(errors="replace"))

    guard.install(settings["fork"], settings["allow"], on_fork=noted)
    notes.use(noted)
    outputs = output.take_over()
    leave_signals_to_the_worker()
    baseline = Baseline(outputs, watch_faults)
    children = Children()
    try:
        line.send(MessageKind.READY, json.dumps(guard.protections()).encode())
        while (message := line.read()) is not None:
            page.clear()
            output.begin(page.begun)
            answer, left = attempt(message[1], own, baseline, children)
            line.send(MessageKind.ENDED, answer)
            if left:  # whatever was sent ahead goes to another runner
                return 0
    except ConnectionError:  # nobody is left to hear it
        return 0
    except OSError:
        return LINE_CLOSED
    return 0


def leave_signals_to_the_worker() -> None:
    """Ignore Ctrl-C and notice, which go to whole jobs: the worker decides. What runs start dies as usual.

    Around a fork both wait: one that came to the fork before it was usual again would be lost.
    """
    usual: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    masks: list[Any] = []

    def in_child() -> None:
        for name, handler in usual.items():
            signal.signal(name, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.pop())

    os.register_at_fork(
        before=lambda: masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, usual)),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, masks.pop()),
        after_in_child=in_child,
    )
    for name in usual:
        signal.signal(name, lambda number, frame: None)


class Children(ReapedChildren):
    """The memory that processes add which work starts and waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.forks = 0
        os.register_at_fork(after_in_parent=self.forked)

    def forked(self) -> None:
        self.forks += 1

    def with_largest(self, own_peak: int, forks_before: int) -> int:
        """Return the peak of this process and the largest child together; what a fork shares with it counts once."""
        child = self.grown(own_peak)
        if child and self.forks == forks_before:
            child += proc.resident(os.getpid())
        return max(own_peak, child)


def attempt(work: bytes, own: int, baseline: Baseline, children: Children) -> tuple[bytes, str]:
    """Call, measure, and turn any end into what ``process.answer`` reads; with it, what was left behind."""
    began, cpu, forks = time.monotonic(), used_cpu(), children.forks
    load_s = 0.0

    def loaded() -> None:
        nonlocal load_s
        load_s = time.monotonic() - began
        baseline.adopt()

    cause, value, message = carry_out(work, own, loaded)
    seconds = time.monotonic() - began
    peak = measure_peak() if seconds >= MEASURED_S else None
    if peak is not None:
        peak = children.with_largest(peak, forks)
    if (mpi := sys.modules.get("scalable.mpi")) is not None:  # ranks are no children of this process
        peak = max(peak or 0, mpi.measured()) or None
    if left := leftovers(baseline):
        with suppress(Exception):
            sys.stderr.write(f"scalable: this process ends, and the next work gets another: this one left {left}\n")
    return pickle.dumps((cause, value, message, seconds, used_cpu() - cpu, peak, left, load_s), protocol=5), left


def leftovers(baseline: Baseline) -> str:
    try:
        return baseline.restore()
    except Exception as error:  # noqa: BLE001 - the user's code may have changed anything that this uses
        return f"a process that cannot be put right: {ends.error_text(error)}"


def carry_out(work: bytes, own: int, loaded: Callable[[], object] = lambda: None) -> tuple[str, bytes, str]:
    try:
        function, arguments = load(work)
        loaded()
    except BaseException as error:  # noqa: BLE001 - importing the user's modules may raise anything
        return ends.CANNOT_START, b"", f"its code cannot be loaded on this worker: {ends.error_text(error)}"
    try:
        value = function(*arguments[0], **arguments[1])
    except BaseException as error:  # noqa: BLE001 - whatever the user's code raises, sys.exit included, is an end
        if os.getpid() != own:
            leave_fork(error)
        return ends.cause_of(error), failed(error), ends.error_text(error)
    if os.getpid() != own:
        leave_fork(None)
    return travelling(value)


def load(work: bytes) -> tuple[Callable[..., Any], tuple[tuple[Any, ...], dict[str, Any]]]:
    function, *arguments = pickle.loads(work)
    if prepare := getattr(function, "__scalable_prepare__", None):
        prepare()
    return function, (arguments[0], arguments[1])


def travelling(value: Any) -> tuple[str, bytes, str]:
    """Say in a sentence why a value cannot be sent back."""
    what = f"its result, a {type(value.value if type(value).__name__ == TASK_RESULT else value).__name__},"
    try:
        packed = pack(value)
    except BaseException as error:  # noqa: BLE001 - pickling calls the value's own code
        return ends.RAISED, b"", f"TypeError: {what} cannot be sent back: {ends.error_text(error).partition(': ')[2]}"
    if len(packed) >= LARGEST:
        message = f"ValueError: {what} has {len(packed)} bytes; write it to a file and return the path"
        return ends.RAISED, b"", message
    return ends.FINISHED, packed, ""


def failed(error: BaseException) -> bytes:
    """Return the error and where it happened, for those who wait for it; the log has it too."""
    inside = error.__traceback__.tb_next if error.__traceback__ else None  # from the user's own code on
    text = "".join(traceback.format_exception(type(error), error, inside))
    with suppress(Exception):  # the user's code may have closed it
        sys.stderr.write(text)
    try:
        packed = pack((error, text))
        pickle.loads(packed)  # some can be sent, but not put together again
    except BaseException:  # noqa: BLE001 - an error that cannot travel is told in words
        return b""
    return packed if len(packed) < LARGEST else b""


def leave_fork(error: BaseException | None) -> NoReturn:
    """End a fork of the user's code that came back to here, as a program ends; it answers nothing."""
    status = 0
    if isinstance(error, SystemExit):
        status = error.code & 0xFF if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        failed(error)
        status = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(status)


def used_cpu() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def measure_peak() -> int | None:
    """Return the highest resident size in bytes since it was last measured."""
    peak = proc.peak_since_reset()
    return peak if proc.reset_peak() else None


def end_with(parent: int) -> None:
    """Die with the worker, adopt orphans among descendants, and let others of this user look in."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(PR_SET_PTRACER, ANYONE, 0, 0, 0)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(FIRST_VICTIM)
    if os.getppid() != parent:  # it died before that line
        os._exit(1)
