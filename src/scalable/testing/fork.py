"""``assert_fork_safe``: for those who write code that runs on workers.

The function is called in a process of its own, beside Python threads and native ones that take and release the locks
which forks get wrong: that of imports, of a buffered file, of logging, and a lock of C. The fork guard refuses every
fork there and remembers it, also where the function swallows the error. A fork inside C code is not seen by the guard;
it shows as a hang or a death.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import cloudpickle

from scalable import proc
from scalable.errors import UsageError
from scalable.worker.runner import guard

TIMEOUT_S = 30.0
THREADS = 4
DUMP_S = 10.0  # faulthandler takes milliseconds to write a stack, but the machine may be busy
POLL_S = 0.02
SHOWN = 2000  # characters of what the function printed, in the message of a failure
CANNOT_LOAD = 3  # exit status
CHILD = "from scalable.testing.fork import child; child()"


def assert_fork_safe(
    function: Callable[..., object] | str,
    *args: object,
    timeout: float = TIMEOUT_S,
    threads: int = THREADS,
    **kwargs: object,
) -> None:
    """Fail if the function forks a process with threads, hangs, dies or raises.

    ``function`` may be ``"package.module:function"``. ``timeout`` seconds are for the call alone, importing excluded;
    ``threads`` Python threads and as many native ones run beside it.
    """
    with tempfile.TemporaryDirectory(prefix="scalable-fork-") as name:
        folder = Path(name)
        (folder / "path").write_text(json.dumps(sys.path))
        (folder / "work").write_bytes(packed(function, args, kwargs))
        with (folder / "output").open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", CHILD, name, str(threads)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,
            )
        try:
            hang = waited(process, folder, timeout)
        finally:
            proc.kill_tree(process.pid)
            process.wait()
        judge(named(function), folder, process.returncode, hang, timeout)


def packed(function: Callable[..., object] | str, args: tuple[object, ...], kwargs: dict[str, object]) -> bytes:
    try:
        data: bytes = cloudpickle.dumps((function, args, kwargs))
    except Exception as error:
        raise UsageError(
            f"{named(function)} or its arguments cannot be sent to a process of its own: {error}"
        ) from error
    return data


def waited(process: subprocess.Popen[bytes], folder: Path, timeout: float) -> str | None:
    """Wait for the end; the stacks if it does not come."""
    begun, deadline = False, time.monotonic() + timeout + TIMEOUT_S  # for the imports
    while process.poll() is None:
        if not begun and (folder / "begun").exists():
            begun, deadline = True, time.monotonic() + timeout
        if time.monotonic() > deadline:
            return stacks(process, folder)
        time.sleep(POLL_S)
    return None


def stacks(process: subprocess.Popen[bytes], folder: Path) -> str:
    """Return the stacks of the function's threads, without those that were there for pressure."""
    file = folder / "stacks"
    if file.exists():
        process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + DUMP_S
        while "in child" not in file.read_text() and time.monotonic() < deadline:
            time.sleep(POLL_S)
    dump = file.read_text() if file.exists() else ""
    return (
        "\n".join(part.strip() for part in dump.split("\n\n") if "in pressing" not in part) or "no stack could be read"
    )


def judge(name: str, folder: Path, status: int, hang: str | None, timeout: float) -> None:
    output = (folder / "output").read_text(errors="replace")[-SHOWN:].strip()
    printed = f"\nit printed:\n{output}" if output else ""
    if status == CANNOT_LOAD:
        remedy = "give a function of a module that can be imported, or its path as 'package.module:function'"
        raise UsageError(f"{name} cannot be loaded in a process of its own; {remedy}{printed}")
    forks = [json.loads(line) for line in lines(folder / "forks")]
    if forks:
        first = forks[0]
        times = f"{len(forks)} times, first at" if len(forks) > 1 else "at"
        where = f"{first['file']}:{first['line']} ({first['function']})"
        message = f"{name} forks a process that has threads, {times} {where}; {guard.REMEDY}"
        raise AssertionError(message + (f"\nand then hangs:\n{hang}" if hang else ""))
    if hang:
        raise AssertionError(
            f"{name} did not end within {timeout:g} s beside other threads; it is here:\n{hang}{printed}"
        )
    if status < 0:
        raise AssertionError(f"{name} died of {signal.Signals(-status).name} beside other threads{printed}")
    if not (folder / "ended").exists():
        raise AssertionError(f"{name} failed beside other threads (exit status {status}){printed}")


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def named(function: Callable[..., object] | str) -> str:
    return function if isinstance(function, str) else getattr(function, "__qualname__", repr(function))


def child() -> None:
    """Run in the process of its own."""
    folder, threads = Path(sys.argv[1]), int(sys.argv[2])
    sys.path[:] = json.loads((folder / "path").read_text())
    try:
        function, args, kwargs = pickle.loads((folder / "work").read_bytes())
        if isinstance(function, str):
            module, _, name = function.partition(":")
            function = getattr(import_module(module), name)
    except BaseException:  # noqa: BLE001 - importing may raise anything
        traceback.print_exc(limit=-1)
        os._exit(CANNOT_LOAD)
    with (folder / "stacks").open("w") as dump, (folder / "forks").open("w", buffering=1) as forks:
        faulthandler.register(signal.SIGUSR1, dump, all_threads=True)
        guard.install("deny", on_fork=lambda facts: forks.write(json.dumps(facts) + "\n"))
        press(threads)
        (folder / "begun").touch()
        status = 0
        try:
            function(*args, **kwargs)
            (folder / "ended").touch()
        except BaseException:  # noqa: BLE001 - told to whoever asked
            traceback.print_exc()
            status = 1
        sys.stdout.flush()
        os._exit(status)


def press(threads: int) -> None:
    """Start Python threads that hold locks on and off, and native threads that only are there."""
    library = ctypes.CDLL(None)
    mutex = ctypes.create_string_buffer(64)  # a pthread_mutex_t of zeros is an open one
    lock, log = threading.Lock(), logging.getLogger("scalable.testing.pressure")
    log.addHandler(logging.NullHandler())
    log.propagate = False
    sink = Path(os.devnull).open("wb")  # noqa: SIM115 - as long as the process

    def pressing() -> None:
        while True:
            with lock:
                library.pthread_mutex_lock(mutex)
                library.usleep(500)
                library.pthread_mutex_unlock(mutex)
            sink.write(b"x" * 100)
            log.warning("pressure")
            with suppress(ImportError):
                import_module("scalable.nowhere")
            time.sleep(0.0005)

    for _ in range(threads):
        threading.Thread(target=pressing, daemon=True).start()
        library.pthread_create(ctypes.byref(ctypes.c_ulong()), None, ctypes.cast(library.pause, ctypes.c_void_p), None)
