"""What a worker sees of the processes of a runner."""

from __future__ import annotations

import os
from typing import Any

from scalable.worker.runner.process import Runner, Settings


def test_a_process_that_computes_is_runnable_and_its_memory_and_time_are_measured() -> None:
    runner = Runner(Settings())
    runner.pid = os.getpid()
    runner.look()
    assert (runner.runnable, runner.stopped) == (True, False)
    assert os.getpid() in runner.pids
    assert runner.resident > 0 < runner.cpu


def test_a_runner_without_a_process_is_seen_as_idle() -> None:
    runner = Runner(Settings())
    runner.look()
    assert (runner.runnable, runner.pids, runner.resident) == (False, [], 0)


def test_work_has_begun_when_the_runner_began_more_than_it_answered() -> None:
    stamp: Any = Beginnings()
    runner = Runner(Settings())
    runner.stamp = stamp
    assert not runner.has_begun
    stamp.begun = 1
    assert runner.has_begun
    runner.answered = 1
    assert not runner.has_begun


class Beginnings:
    """The stamp of a runner that has begun so many works."""

    begun = 0
