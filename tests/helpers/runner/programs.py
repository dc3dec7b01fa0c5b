"""Small programs that misbehave, started as real processes and surely gone when a test ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from scalable import proc

PATIENCE_S = 60.0  # an upper bound against hanging, not a measure
MARK = "SCALABLE_RUNNER"


class Program(NamedTuple):
    pid: int
    mark: tuple[str, str]
    process: subprocess.Popen[bytes]

    def members(self) -> list[int]:
        return proc.marked(*self.mark)


@contextmanager
def program(code: str, *arguments: str, folder: Path | None = None, name: str = "work.py") -> Iterator[Program]:
    """Run Python code in a session of its own until the block ends; it has said ``ready`` when the block begins."""
    token = f"test-{token_hex(8)}"
    if folder is not None:
        (folder / name).write_text(code, encoding="utf-8")
    command = [sys.executable, *((str(folder / name),) if folder is not None else ("-c", code)), *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, start_new_session=True, env={**os.environ, MARK: token}, cwd=folder
    )
    impatience = threading.Timer(PATIENCE_S, process.kill)
    try:
        assert process.stdout is not None
        impatience.start()
        assert process.stdout.readline() == b"ready\n"
        impatience.cancel()
        yield Program(process.pid, (MARK, token), process)
    finally:
        impatience.cancel()
        until = time.monotonic() + PATIENCE_S
        while (left := proc.marked(MARK, token)) and time.monotonic() < until:
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, number)
        if process.poll() is None:
            process.kill()
        if process.stdout is not None:
            process.stdout.close()
        process.wait()


def eventually(true: Callable[[], object], what: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < until, f"not within {PATIENCE_S:.0f} s: {what}"
        time.sleep(0.01)
