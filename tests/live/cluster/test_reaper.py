"""The reaper cleans up after a process that was killed, and only then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from scalable import proc
from scalable.worker.reaper import Reaper
from tests.helpers.waiting import until

DRIVER = """
import os, sys, time
from scalable.worker.reaper import Reaper
reaper = Reaper()
for mark in sys.argv[1:]:
    reaper.on_death(["touch", mark])
{then}
print(reaper.process.pid, flush=True)
time.sleep(60)
"""


def driver(*marks: Path, then: str = "") -> tuple[subprocess.Popen[str], int]:
    """A process with a reaper, and the reaper's process id."""
    command = [sys.executable, "-c", DRIVER.format(then=then), *map(str, marks)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_commands_run_when_the_driver_is_killed(tmp_path: Path) -> None:
    marks = [tmp_path / "first", tmp_path / "an odd\n'name'"]
    process, reaper = driver(*marks)
    assert not any(mark.exists() for mark in marks)
    process.kill()
    process.communicate()
    assert until(lambda: all(mark.exists() for mark in marks))
    os.kill(reaper, signal.SIGKILL)  # it would look once more


def test_a_child_that_keeps_the_drivers_files_open_does_not_delay_it(tmp_path: Path) -> None:
    process, reaper = driver(
        tmp_path / "mark", then="child = os.fork()\nif not child:\n    time.sleep(60)\n    os._exit(0)"
    )
    children = [pid for pid in proc.tree(process.pid)[1:] if pid != reaper]
    assert len(children) == 1
    process.kill()
    process.wait()
    assert until((tmp_path / "mark").exists)
    for pid in (*children, reaper):
        os.kill(pid, signal.SIGKILL)
    process.communicate()


def test_nothing_runs_when_all_is_done(tmp_path: Path) -> None:
    reaper = Reaper()
    reaper.done()  # nothing was ever asked for
    reaper.on_death(["touch", str(tmp_path / "mark")])
    assert reaper.process is not None
    pid = reaper.process.pid
    reaper.done()
    assert not proc.alive(pid)
    assert not (tmp_path / "mark").exists()


def test_a_reaper_that_was_killed_is_replaced_and_knows_all_commands(tmp_path: Path) -> None:
    reaper = Reaper()
    reaper.on_death(["touch", str(tmp_path / "first")])
    assert reaper.process is not None
    reaper.process.kill()
    reaper.process.wait()
    reaper.on_death(["touch", str(tmp_path / "second")])
    left = reaper.leave()
    assert until(lambda: (tmp_path / "first").exists() and (tmp_path / "second").exists())
    left.kill()
    left.wait()
