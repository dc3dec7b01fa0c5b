"""Whether a run still runs, told from its journal and its process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from scalable.observe import RunState, state_of
from scalable.observe.liveness import running
from tests.helpers.observe.builders import a_live_run, a_run, ended, run_started, summed
from tests.helpers.observe.liveness import now_started


def a_dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_run_that_wrote_its_end_is_what_it_says() -> None:
    for status, state in (("ok", RunState.OK), ("failed", RunState.FAILED), ("interrupted", RunState.INTERRUPTED)):
        assert state_of(summed(run_started(pid=a_dead_process()), ended(status=status))) is state


def test_a_run_without_end_whose_process_is_gone_was_interrupted() -> None:
    state = state_of(summed(now_started(pid=a_dead_process())))
    assert state is RunState.GONE
    assert state.value == "interrupted (the process is gone)"


def test_a_process_that_is_only_a_zombie_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    try:
        assert state_of(summed(now_started(pid=process.pid))) is RunState.GONE
    finally:
        process.wait()


def test_a_run_on_another_machine_is_taken_to_run_until_it_says_otherwise() -> None:
    assert state_of(summed(run_started(pid=a_dead_process()) | {"host": "elsewhere"})) is RunState.RUNNING


def test_a_journal_without_its_first_line_is_judged_by_the_run_file() -> None:
    assert state_of(summed()) is RunState.EMPTY
    assert state_of(summed(), now_started()) is RunState.RUNNING
    assert state_of(summed(), now_started(pid=a_dead_process())) is RunState.GONE


def test_the_runs_that_have_not_ended_are_found_the_latest_first(tmp_path: Path) -> None:
    a_run(tmp_path)
    first = a_live_run(tmp_path)
    a_live_run(tmp_path, pid=a_dead_process())
    second = a_live_run(tmp_path)
    assert running(tmp_path) == [second, first]
