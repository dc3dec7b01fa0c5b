"""What happens to forked children of processes with threads: ``python -m tests.helpers.forks.scenes SCENE FILE``.

A scene is a process of its own. It does the dangerous thing without protection, then the right way, then the dangerous
thing once more under the fork guard, and adds what became of each to FILE, a line each. Heavy libraries are imported
once per scene.
"""

from __future__ import annotations

import ctypes
import io
import json
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from scalable import proc
from scalable.worker.runner import guard

QUIET_S = 1.0  # a child that used no CPU for so long and has not ended hangs
GIVEN_S = 20.0  # and one that has not ended then hangs, whatever it does
CALLERS = 3  # threads that call gRPC back to back
FORKS = 300  # tries, where a hang is a matter of luck; with fork support on the first or second hangs
CALLS = 40  # the same for pools
WORKERS = (2, 8)
SAMPLES = 2000

Work = Callable[[], object]


class Notes:
    """The file in which a scene tells its outcomes."""

    def __init__(self, path: str) -> None:
        self.file = Path(path).open("a", buffering=1)  # noqa: SIM115 - as long as the process

    def add(self, **outcomes: object) -> None:
        self.file.write(json.dumps(outcomes) + "\n")


def fork_all(works: dict[str, Work]) -> dict[str, str]:
    """Fork a child for each piece of work: did it end, die or hang?"""
    children = {name: forked(work) for name, work in works.items()}
    with suppress(TimeoutError):
        until_quiet(children.values())
    return {name: outcome(pid) for name, pid in children.items()}


def forked(work: Work) -> int:
    pid = os.fork()
    if pid:
        return pid
    with suppress(BaseException):
        work()
        os._exit(0)
    os._exit(1)


def until_quiet(pids: Iterable[int]) -> None:
    """Wait until all have ended, or until none of them has used CPU for a while."""
    pids = list(pids)
    begun = changed = time.monotonic()
    seen = -1.0
    while any(map(proc.alive, pids)) and time.monotonic() < changed + QUIET_S:
        if time.monotonic() > begun + GIVEN_S:
            raise TimeoutError("they go on and on")
        if (now := sum(map(proc.cpu_s, pids))) != seen or any(map(wants_cpu, pids)):
            seen, changed = now, time.monotonic()
        time.sleep(0.01)


def wants_cpu(pid: int) -> bool:
    """Whether any thread of it runs, or would if the machine were not busy."""
    with suppress(OSError):
        states = [(task / "stat").read_text().rpartition(") ")[2][:1] for task in Path(f"/proc/{pid}/task").iterdir()]
        return any(state in "RD" for state in states)
    return False


def outcome(pid: int) -> str:
    ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return "hung"
    code = os.waitstatus_to_exitcode(status)
    return "ended" if code == 0 else f"failed with {code}" if code > 0 else signal.Signals(-code).name


def under_guard(work: Work) -> str:
    """What the guard says of it; it is in place for the rest of the scene."""
    if guard.protections()["guard"] is None:
        guard.install("deny")
    begun = time.monotonic()
    try:
        work()
    except guard.ForkDenied as error:
        return f"denied after {time.monotonic() - begun:.1f} s: {error}"
    return "not denied"


def locks(notes: Notes) -> None:
    """One thread holds each kind of lock while the process is forked; nothing here is left to chance."""
    go = threading.Event()
    lock, mutex, library = threading.Lock(), ctypes.create_string_buffer(64), ctypes.CDLL(None)
    logger = logging.getLogger("scene")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    pool = ThreadPoolExecutor(1)
    pool.submit(abs, 1).result()
    writer = io.BufferedWriter(Blocking(go))
    folder = tempfile.mkdtemp()
    sys.path.append(folder)
    held = {name: threading.Event() for name in ("python", "writer", "importing", "mutex", "logging")}
    (Path(folder) / "importing.py").write_text("import __main__\n__main__.IMPORTING()\n")

    def hold(name: str) -> None:
        held[name].set()
        go.wait()

    sys.modules["__main__"].IMPORTING = lambda: hold("importing")  # type: ignore[attr-defined]

    def hold_python() -> None:
        with lock:
            hold("python")

    def hold_mutex() -> None:
        library.pthread_mutex_lock(mutex)
        hold("mutex")
        library.pthread_mutex_unlock(mutex)

    def hold_logging() -> None:
        logger.handlers[0].acquire()
        hold("logging")

    Blocking.held = held["writer"]
    holders: list[Work] = [hold_python, hold_mutex, hold_logging, lambda: import_module("importing")]
    writer.write(b"x")
    holders.append(writer.flush)
    for holder in holders:
        threading.Thread(target=holder, daemon=True).start()
    for name, event in held.items():
        assert event.wait(10), name

    def take_mutex() -> None:
        library.pthread_mutex_lock(mutex)

    works: dict[str, Work] = {
        "python lock": lock.acquire,
        "buffered writer": writer.flush,
        "import lock": lambda: import_module("importing"),
        "C mutex": take_mutex,
        "thread pool": lambda: pool.submit(abs, 1).result(),
        "logging lock": lambda: logger.warning("from the child"),
    }
    notes.add(**fork_all(works))
    with multiprocessing.get_context("spawn").Pool(1) as processes:
        notes.add(spawn=processes.apply(abs, (-3,)))
    notes.add(guard=under_guard(lambda: fork_all(works)))


class Blocking(io.RawIOBase):
    """A file that keeps whoever writes to it waiting, and so the lock of the buffer in front of it."""

    held = threading.Event()

    def __init__(self, go: threading.Event) -> None:
        self.go = go

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.held.set()
        self.go.wait()
        return len(data)


def xgboost(notes: Notes) -> None:
    import numpy

    library = import_module("xgboost")
    data = numpy.random.default_rng(0).random((2000, 8))
    labels = (data[:, 0] > 0.5).astype(float)

    def train(threads: int) -> Work:
        settings = {"nthread": threads, "objective": "binary:logistic"}
        return lambda: library.train(settings, library.DMatrix(data, labels, nthread=threads), 3)

    train(1)()
    notes.add(**fork_all({"parent 1, child 2": train(2)}))
    train(2)()
    notes.add(**fork_all({"parent 2, child 2": train(2), "parent 2, child 1": train(1)}))
    notes.add(guard=under_guard(lambda: fork_all({"x": train(2)})))


def grpc(notes: Notes) -> None:
    with grpc_load() as call:
        notes.add(**fork_all({"child calls": call, "child does not": lambda: None}))
        with multiprocessing.get_context("spawn").Pool(1) as processes:
            notes.add(spawn=processes.apply(abs, (-3,)))
        notes.add(guard=under_guard(lambda: fork_all({"x": lambda: None})))


def grpc_forks(notes: Notes) -> None:
    """As often as it goes well; whoever reads the notes sees where it stopped."""
    with grpc_load():
        for count in range(FORKS):
            notes.add(forks=count)
            found = fork_all({"x": lambda: None})["x"]
            if found != "ended":
                notes.add(child=found)
                return
    notes.add(child="all ended")


def cleaning(notes: Notes) -> None:
    """Label cleaning beside gRPC: as it should be, with pools, and under the guard also without its n_jobs=1."""
    from tests.helpers.forks import cleaning as ours

    library = import_module("cleanlab.filter")
    library.psutil.cpu_count = lambda logical=True: WORKERS[-1]  # what n_jobs is where nothing is said
    labels, probabilities = ours.sample(SAMPLES)
    with grpc_load():
        notes.add(in_process=[len(ours.label_issues(labels, probabilities)) for _ in range(5)])
        for workers in WORKERS:
            notes.add(**{f"{workers} workers": pool_calls(library.find_label_issues, labels, probabilities, workers)})
        for workers in WORKERS:
            work = partial(library.find_label_issues, labels, probabilities, n_jobs=workers)
            notes.add(**{f"{workers} workers, guard": under_guard(work)})
        notes.add(guarded_in_process=len(ours.label_issues(labels, probabilities)))
        source = Path(ours.__file__).read_text()
        changed = source.replace(", n_jobs=1", "")
        careless: dict[str, Any] = {"__name__": "careless"}
        exec(compile(changed, "careless.py", "exec"), careless)
        notes.add(removed=changed != source)
        notes.add(careless=under_guard(lambda: careless["label_issues"](labels, probabilities)))


def pool_calls(function: Callable[..., object], labels: Any, probabilities: Any, workers: int) -> str:
    """Call it up to CALLS times; "hung" when a call does not come back while nothing below this process works."""
    calls = 0

    def call() -> None:
        nonlocal calls
        for _ in range(CALLS):
            function(labels, probabilities, n_jobs=workers)
            calls += 1

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    begun = changed = time.monotonic()
    seen: tuple[int, float] | None = None
    while thread.is_alive() and time.monotonic() < min(changed + 2 * QUIET_S, begun + GIVEN_S):
        if (now := (calls, sum(map(proc.cpu_s, below())))) != seen or any(map(wants_cpu, below())):
            seen, changed = now, time.monotonic()
        time.sleep(0.05)
    return "hung" if thread.is_alive() else f"{calls} calls ended"


def below() -> list[int]:
    return [pid for pid in proc.tree(os.getpid()) if pid != os.getpid()]


@contextmanager
def grpc_load() -> Iterator[Work]:
    """A server in this process and threads that call it without a pause; gives a call for others."""
    library = import_module("grpc")
    server = library.server(ThreadPoolExecutor(4))
    handlers = {"echo": library.unary_unary_rpc_method_handler(lambda request, _: request)}
    server.add_generic_rpc_handlers((library.method_handlers_generic_handler("scene.Scene", handlers),))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    answered = threading.Barrier(CALLERS + 1)

    def call() -> None:
        with library.insecure_channel(address) as channel:
            channel.unary_unary("/scene.Scene/echo")(b"x", timeout=60)

    def call_on() -> None:
        call()
        answered.wait(60)
        echo = library.insecure_channel(address).unary_unary("/scene.Scene/echo")
        while True:
            with suppress(library.RpcError):
                echo(b"x", timeout=60)

    for _ in range(CALLERS):
        threading.Thread(target=call_on, daemon=True).start()
    answered.wait(60)
    yield call


SCENES = {scene.__name__: scene for scene in (locks, xgboost, grpc, grpc_forks, cleaning)}

if __name__ == "__main__":
    SCENES[sys.argv[1]](Notes(sys.argv[2]))
    os._exit(0)
