"""What code of runs does to the process it is in, by mistake or because a library does."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import scalable
from scalable.worker.runner.notes import note
from tests.helpers.runner.work import segfault, wait_for


def close_everything() -> int:
    """As code does that makes itself a daemon."""
    os.closerange(3, 1 << 16)
    return 1


def close_everything_and_wait() -> None:
    os.closerange(3, 1 << 16)
    time.sleep(600)


def close_streams() -> None:
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.close()


def replace_streams() -> None:
    sys.stdout = sys.stderr = None


def move_away(folder: str) -> str:
    os.chdir(folder)
    return str(Path.cwd())


def say(words: str) -> None:
    print(words)
    print(words, file=sys.stderr)


def say_and_wait(words: str, path: str) -> None:
    print(words)
    wait_for(path)


def say_and_crash(words: str) -> None:
    subprocess.run(["echo", "from a program"], check=True)
    print(words)
    segfault()


def say_and_lack_memory(words: str) -> None:
    subprocess.run(["echo", "from a program"], check=True)
    print(words)
    raise MemoryError


def where() -> str:
    return str(Path.cwd())


def clean_up_and_crash() -> None:
    """Take the temporary files of everybody for its own."""
    for path in Path(tempfile.gettempdir()).glob("scalable-*"):
        path.unlink() if path.is_file() else shutil.rmtree(path, ignore_errors=True)
    segfault()


def say_much(mebibytes: int) -> int:
    for _ in range(mebibytes):
        sys.stdout.write("x" * (1 << 20))
    return mebibytes


HELD: list[bytearray] = []
POOL: Any = None


def leak(mebibytes: int) -> int:
    """Keep more with every call, as code with a cache that forgets nothing."""
    HELD.append(bytearray(b"x" * (mebibytes << 20)))
    time.sleep(0.005)
    return len(HELD)


def length(value: bytes) -> int:
    return len(value)


def bytes_of(size: int) -> bytes:
    return bytes(size)


def change_signals() -> None:
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def break_pickle() -> None:
    """So that nothing can be loaded any more, here in the crudest way."""
    import pickle

    pickle.loads = None  # type: ignore[assignment]


def forget_environment() -> None:
    os.environ.clear()


def leave_a_thread_that_exits(status: int) -> int:
    """It ends the process a moment after the work has come back."""
    threading.Timer(0.2, os._exit, (status,)).start()
    return os.getpid()


def start_a_thread_for_ever() -> int:
    threading.Thread(target=time.sleep, args=(600,)).start()
    return os.getpid()


def read_from_an_object_store() -> int:
    """Start the thread in which fsspec speaks to object stores, as reading an artefact does; return the process."""
    from fsspec.asyn import get_loop  # type: ignore[import-untyped]

    assert get_loop().is_running()
    return os.getpid()


def leave_a_daemon_thread() -> int:
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return os.getpid()


def leave_a_spinning_thread() -> int:
    def spin() -> None:
        while True:
            pass

    threading.Thread(target=spin, daemon=True).start()
    return os.getpid()


def leave_a_native_thread_spinning() -> int:
    """A thread that Python does not know of, and that never sleeps."""
    source = (
        "#include <pthread.h>\nstatic void *spin(void *nothing) { for (;;); }\n"
        "void go(void) { pthread_t thread; pthread_create(&thread, 0, spin, 0); }\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "spin.c").write_text(source)
        command = ["cc", "-shared", "-fPIC", "-pthread", "-o", f"{folder}/spin.so", f"{folder}/spin.c"]
        subprocess.run(command, check=True)
        ctypes.CDLL(f"{folder}/spin.so").go()
    time.sleep(1.0)
    return os.getpid()


def leave_a_pool(way: str) -> int:
    global POOL
    POOL = multiprocessing.get_context(way).Pool(1)
    POOL.apply(os.getpid)
    return os.getpid()


def leave_an_alarm() -> int:
    signal.signal(signal.SIGALRM, lambda number, frame: None)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    return os.getpid()


def use_libraries() -> int:
    """What learning code uses: pools of native threads, processes of joblib, a progress bar."""
    import joblib  # type: ignore[import-untyped]
    import numpy as np
    import optuna
    import polars as pl
    import xgboost
    from sklearn.ensemble import RandomForestClassifier
    from tqdm import tqdm  # type: ignore[import-untyped]

    x = np.random.default_rng(0).normal(size=(400, 400))
    y = (x[:, 0] > 0).astype(int)
    (x @ x).sum()
    xgboost.XGBClassifier(n_estimators=3, n_jobs=2).fit(x, y)
    RandomForestClassifier(4, n_jobs=2).fit(x, y)
    joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(-number) for number in tqdm(range(4), mininterval=0))
    pl.DataFrame({"a": x[:, 0], "b": y}).group_by("b").agg(pl.col("a").mean())
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    optuna.create_study().optimize(lambda trial: trial.suggest_float("a", 0, 1), n_trials=4, n_jobs=2)
    return os.getpid()


def set_variable(name: str, value: str) -> int:
    os.environ[name] = value
    return os.getpid()


def sleep_silently(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


class Loud:
    def __del__(self) -> None:
        raise RuntimeError("in __del__")


def raise_in_del() -> None:
    Loud()


def talk_nonsense(what: bytes) -> None:
    """Write to whatever socket it finds open."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):  # noqa: PTH115
                os.write(int(name), what)
        except OSError:
            continue


def fork_and_exit(status: int) -> int:
    """The child leaves by sys.exit, as at the end of a program."""
    child = os.fork()
    if child == 0:
        sys.exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def raise_this(error: BaseException) -> None:
    raise error


def fail_with_file_name() -> None:
    """A name that is no text in any encoding, as old archives hold them."""
    Path(os.fsdecode(b"gone-\xff")).read_bytes()


def report_far(step: Any) -> None:
    scalable.progress(step, step, "far")
    time.sleep(0.5)


def note_and_wait(folder: str, name: str) -> str:
    """Leave a trace for each time it is called, then go on when told to."""
    with Path(folder, f"{name}.calls").open("a") as file:
        file.write("x")
    wait_for(f"{folder}/{name}")
    return name


class LocalError(Exception):
    """Travels, but cannot be put together again."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def fail_locally() -> None:
    raise LocalError(1, 2)


def fail_in_a_group() -> None:
    raise ExceptionGroup("several", [ValueError("one"), LocalError(1, 2), ExceptionGroup("inner", [KeyError("k")])])


def nested_session(folder: str) -> int:
    """A session inside of a run."""
    manifest = Path(folder) / "inner.yaml"
    manifest.write_text(
        "version: 1\nproject: {name: inner}\ntargets: {local: {provider: local, max_workers: 1}}\n"
        "components: {model: {cpus: 1, memory: 1GiB}}\n"
    )
    with scalable.ScalableSession.from_yaml(manifest) as client:
        return int(client.submit(length, b"abc", guarded=True).result(timeout=60))


def note_while_it_answers(mebibytes: int) -> bytes:
    """A thread of its own goes on telling while the result is on its way."""
    told = "x" * 1000

    def tell() -> None:
        for number in range(3000):
            note("mischief", number=number, told=told)

    threading.Thread(target=tell).start()
    return bytes(mebibytes << 20)
