"""Whether a run still runs, told from its journal and its process."""

from __future__ import annotations

import os
import time

from scalable import proc
from scalable.observe import State, state_of
from scalable.observe.liveness import is_there
from tests.helpers.observe.builders import run_started, summed
from tests.helpers.observe.liveness import now_started


def test_a_run_whose_process_is_there_is_running() -> None:
    assert state_of(summed(now_started())) is State.RUNNING


def test_a_later_process_of_the_same_number_is_another_one() -> None:
    assert is_there(os.getpid(), time.time())
    assert not is_there(os.getpid(), time.time() - 10 * 86400)


def test_a_clock_that_is_set_makes_no_process_another_one() -> None:
    own = proc.identity(os.getpid())
    assert state_of(summed(run_started(at=-10 * 86400, process=own))) is State.RUNNING
    for another in (f"an-earlier-boot {own.partition(' ')[2]}", f"{own}0"):
        assert state_of(summed(now_started() | {"process": another})) is State.GONE
