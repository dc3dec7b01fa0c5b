"""The writer of a log: a process that outlives whoever prints, and nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scalable import proc
from scalable.observe.files import append_private
from scalable.observe.logs import without_time
from scalable.worker.printing import LARGEST_LOG, LogPipe
from tests.helpers.waiting import until

Opened = Callable[..., LogPipe]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "worker.log"


@pytest.fixture
def opened(log: Path) -> Iterator[Opened]:
    pipes: list[LogPipe] = []

    def open_pipe(**environment: str) -> LogPipe:
        pipes.append(LogPipe(append_private(log), environment))
        return pipes[-1]

    yield open_pipe
    for pipe in pipes:
        pipe.close()


def printed(pipe: LogPipe, code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], stdout=pipe.writing, stderr=pipe.writing)


def lines(log: Path) -> list[str]:
    return [without_time(line) for line in log.read_text().splitlines()]


def test_lines_are_in_the_log_while_their_process_runs_and_without_its_secrets(log: Path, opened: Opened) -> None:
    pipe = opened(API_TOKEN="staple-of-a-component")
    with printed(pipe, "import time; print('with staple-of-a-component', flush=True); time.sleep(600)") as process:
        try:
            assert until(lambda: lines(log) == ["with ***"])
        finally:
            process.kill()
    assert log.stat().st_mode & 0o777 == 0o600


def test_everything_is_written_when_it_is_closed_and_the_writer_is_gone(log: Path, opened: Opened) -> None:
    pipe = opened()
    printed(pipe, "print('one')").wait()
    assert until(lambda: pipe.writer)
    writer = pipe.writer
    assert writer
    assert writer not in proc.tree(os.getpid())  # what ends this process with its children spares it
    pipe.close()
    assert lines(log) == ["one"]
    assert until(lambda: not proc.alive(writer))


def test_a_printer_of_100_megabytes_is_never_held_up_and_its_log_is_capped(log: Path, opened: Opened) -> None:
    pipe = opened()
    code = "for _ in range(1000): print(('x' * 99 + '\\n') * 1000, end='')"
    assert printed(pipe, code).wait() == 0
    pipe.close()
    assert log.stat().st_size < LARGEST_LOG + 1000
    assert "capped" in lines(log)[-1]


def test_another_writer_takes_the_place_of_one_that_was_killed(log: Path, opened: Opened) -> None:
    pipe = opened()
    assert until(lambda: pipe.writer)
    first = pipe.writer
    assert first
    os.kill(first, signal.SIGKILL)
    printed(pipe, "print('still there')").wait()
    assert until(lambda: lines(log) == ["still there"])
    assert until(lambda: pipe.writer != first)


def test_a_process_that_escaped_does_not_keep_the_writer_of_a_worker_that_is_gone(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"""if True:
        import os, subprocess, sys, time
        from pathlib import Path
        from scalable.observe.files import append_private
        from scalable.worker.printing import LogPipe
        pipe = LogPipe(append_private(Path({str(log)!r})))
        print("last words", file=os.fdopen(os.dup(pipe.writing), "w"), flush=True)
        sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]
        escaped = subprocess.Popen(sleeping, stdout=pipe.writing, start_new_session=True)
        while not pipe.writer:
            time.sleep(0.01)
        print(escaped.pid, pipe.writer, flush=True)
        os.kill(os.getpid(), 9)
    """
    ended = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False)
    escaped, writer = map(int, ended.stdout.split())
    try:
        assert until(lambda: not proc.alive(writer))
        assert proc.alive(escaped)
        assert lines(log) == ["last words"]
    finally:
        os.kill(escaped, signal.SIGKILL)
