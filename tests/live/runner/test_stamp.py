"""The progress stamp: read while it is written, from threads, forks and the dead, and with whatever users report."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from scalable.worker.runner.stamp import LONGEST_NOTE, Progress, Stamp, progress
from tests.helpers.runner.stamp import page

__all__ = ["page"]


PATIENCE_S = 60.0  # a test that takes longer hangs


@contextmanager
def child(page: Stamp, script: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has the stamp and runs a script; it is killed in the end."""
    head = "import os, sys, threading, time\nfrom scalable.worker.runner import stamp\n"
    head += "from scalable.worker.runner.stamp import Stamp, long_step, progress\n"
    head += "stamp.use(Stamp.attach(int(sys.argv[1])))\n"
    command = [sys.executable, "-c", head + textwrap.dedent(script), str(page.fd)]
    with subprocess.Popen(
        command, pass_fds=[page.fd], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def wait(page: Stamp, count: int) -> Progress:
    deadline = time.monotonic() + PATIENCE_S
    while (found := page.read()).count < count:
        assert time.monotonic() < deadline, found
        time.sleep(0.002)
    return found


def test_it_is_read_while_the_child_holds_the_gil(page: Stamp) -> None:
    script = "import ctypes\nprogress(7, note='before')\nctypes.PyDLL(None).sleep(60)"  # PyDLL keeps the GIL
    with child(page, script):
        assert wait(page, 1).note == "before"


def test_every_reading_of_a_busy_page_is_whole(page: Stamp) -> None:
    script = "import itertools\nfor n in itertools.count(1):\n    progress(n, -n, str(n) * (n % 40))"
    with child(page, script):
        wait(page, 1)
        seen = [page.read() for _ in range(20_000)]

    assert all(found.step == found.count and found.of == -found.count for found in seen)
    assert all(found.note == (str(found.count) * (found.count % 40))[:LONGEST_NOTE] for found in seen)
    assert [found.count for found in seen] == sorted(found.count for found in seen)
    assert seen[-1].count > seen[0].count


def test_threads_and_forked_children_write_to_the_same_page(page: Stamp) -> None:
    script = """
        def work(name):
            for n in range(3000):
                progress(name, name, str(name) * 40)
        children = []
        for name in range(3):
            children.append(os.fork())
            if not children[-1]:
                work(name)
                os._exit(0)
        for pid in children:
            os.waitpid(pid, 0)
        threads = [threading.Thread(target=work, args=[name]) for name in range(3, 6)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        progress(99, note="end")
        print("written", flush=True)
        time.sleep(60)
    """
    with child(page, script) as process:
        seen: set[Any] = set()
        deadline = time.monotonic() + PATIENCE_S
        while (found := page.read()).note != "end":
            assert time.monotonic() < deadline
            if found.count:
                assert found.step == found.of
                assert found.note == str(found.step) * 40
                seen.add(found.step)
        assert process.stdout
        assert process.stdout.readline() == "written\n"

    assert len(seen) > 1
    assert page.read().step == 99, "the parent is heard after its children"


def test_a_writer_killed_at_any_moment_leaves_a_page_that_can_be_read(page: Stamp) -> None:
    script = "import itertools\nfor n in itertools.count(1):\n    progress(n, n, str(n) * 9)"
    for _ in range(6):
        begin = page.read().count
        with child(page, script):
            wait(page, begin + 100)
        found = page.read()
        assert found.step == found.of
        assert found.note == str(found.step) * 9

    progress(1, note="again")
    assert page.read().note == "again"


def test_where_memfd_is_missing_a_file_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    page = Stamp.create()
    try:
        with child(page, "progress(3, 4, 'through a file')\ntime.sleep(60)"):
            assert wait(page, 1).note == "through a file"
    finally:
        page.close()
