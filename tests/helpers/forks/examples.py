"""Functions for ``assert_fork_safe``: good ones and all kinds of bad ones."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress


def safe(word: str, *, times: int = 1) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(len, [word] * times) == [len(word)] * times
    subprocess.run([sys.executable, "-c", "pass"], check=True)


def forking() -> None:
    multiprocessing.get_context("fork").Pool(2)


def forking_in_secret() -> None:
    with suppress(Exception):
        os.fork()


def hanging() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def dying() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def failing() -> None:
    print("so far so good")
    raise ValueError("not today")


def leaving() -> None:
    sys.exit(0)
