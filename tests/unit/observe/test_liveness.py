"""Whether a run still runs, told from its journal and its process."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from scalable import proc
from scalable.observe import RunState, state_of
from scalable.observe.liveness import LOST_AFTER_S, SILENT_S, is_running, is_there, silence_s
from tests.helpers.observe.builders import a_live_run, fall_silent, run_started, summed
from tests.helpers.observe.liveness import now_started


def test_a_run_whose_process_is_there_is_running() -> None:
    assert state_of(summed(now_started())) is RunState.RUNNING


def test_a_later_process_of_the_same_number_is_another_one() -> None:
    assert is_there(os.getpid(), time.time())
    assert not is_there(os.getpid(), time.time() - 10 * 86400)


def test_the_clock_of_the_file_system_decides_how_long_a_run_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_live_run(tmp_path, host="far")
    for skew in (-86400.0, 86400.0):
        ours = time.time() + skew
        monkeypatch.setattr("scalable.observe.liveness.time.time", lambda ours=ours: ours)
        assert silence_s(folder) < SILENT_S and is_running(folder)
        monkeypatch.undo()
    fall_silent(folder, LOST_AFTER_S + 60)
    assert silence_s(folder) > LOST_AFTER_S and not is_running(folder)
    assert [path.name for path in folder.path.iterdir() if path.suffix == ".part"] == []


def test_a_clock_that_is_set_makes_no_process_another_one() -> None:
    own = proc.identity(os.getpid())
    assert state_of(summed(run_started(at=-10 * 86400, process=own))) is RunState.RUNNING
    for another in (f"an-earlier-boot {own.partition(' ')[2]}", f"{own}0"):
        assert state_of(summed(now_started() | {"process": another})) is RunState.GONE
