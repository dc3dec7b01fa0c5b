"""kill -9 at random moments of a sweep: resumed, it has exactly its rows, and nothing that was there is computed again.

``SCALABLE_KILLS`` says how many moments are tried; ``make test-all`` asks for 50.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from functools import partial

import pytest

from scalable import chaos
from scalable.chaos.victims import Processes
from scalable.errors import ScalableError
from scalable.store import RowStatus, SweepStatus, open_store
from tests.helpers.sweeps.faults.fixtures import Make
from tests.helpers.sweeps.faults.miniature import (
    WITHIN_S,
    Miniature,
    Started,
    Watch,
    again,
    metrics,
    undisturbed,
    wait_for,
)
from tests.helpers.sweeps.faults.servers import kill_and_start
from tests.tools.postgres import PrivatePostgres

KILLS = int(os.environ.get("SCALABLE_KILLS", "6"))
IN_ONE_SWEEP = 6  # kills of a sweep of 39 executions, before the next sweep begins anew
BETWEEN = 6  # executions at most from one kill to the next
LATER_S = 0.12  # or within the next execution, which takes about so long
STARTING_S = 2.0  # a kill may come before anything is executed


class Assassin:
    """Kills what it is told at moments of its own choice, and sees to it that the sweep is complete in the end."""

    def __init__(self, seed: int, mini: Miniature, server: PrivatePostgres | None = None) -> None:
        self.chance = random.Random(seed)
        self.mini = mini
        self.server = server
        self.watch = Watch(mini)
        self.lost = 0
        """Executions that a kill may have cost."""

    def complete(self, victims: list[str]) -> list[str]:
        """Kill until the sweep is complete all the same; those whose turn did not come."""
        left = list(victims)
        started = self.mini.start()
        while left:
            self.moment(started)
            if self.kill(left[0], started):
                left.pop(0)
            if started.process.poll() == 0:
                return left
            if started.process.poll() is not None:
                started = self.again(started)
        deadline = time.monotonic() + WITHIN_S
        while started.wait() != 0:
            assert time.monotonic() < deadline, started.said()
            started = self.again(started)
        return left

    def again(self, started: Started) -> Started:
        """Start it once more after its driver was killed, or found its server down."""
        assert started.wait() == -signal.SIGKILL or self.server is not None, started.said()
        assert self.mini.gone(), f"left behind: {self.mini.left()}"
        return self.mini.start()

    def moment(self, started: Started) -> None:
        """Wait for a random number of executions, and then a random while within the next one."""
        more = self.chance.randrange(BETWEEN + 1)
        if not more:
            time.sleep(self.chance.uniform(0, STARTING_S))
            return
        goal = len(self.mini.executed()) + more
        wait_for(lambda: len(self.mini.executed()) >= goal or started.process.poll() is not None, f"{goal} executions")
        time.sleep(self.chance.uniform(0, LATER_S))

    def kill(self, victim: str, started: Started) -> bool:
        """Whether there was one to be killed before the sweep was over."""
        if started.process.poll() == 0:
            return False
        self.watch.look()
        if victim == "store":
            assert self.server is not None
            kill_and_start(self.server)
            return True
        if victim == "driver":
            started.process.kill()
            self.lost += 2  # as many as are executed at once
            return started.wait() == -signal.SIGKILL
        self.lost += 1
        deadline = time.monotonic() + WITHIN_S
        while started.process.poll() is None and time.monotonic() < deadline:
            try:
                processes = Processes(self.mini.run_folders()[-1])
                chaos.kill(self.chance.choice(processes.workers() if victim == "worker" else processes.runners()))
            except (IndexError, ScalableError):  # none has been started yet, or it has just ended
                time.sleep(0.01)
            else:
                return True
        return False


def check(assassin: Assassin) -> None:
    mini, watch = assassin.mini, assassin.watch
    work = mini.compiled()
    rows = mini.rows()
    executed = mini.executed()
    assert set(rows) == {key for key, _ in work.expected}
    assert metrics(rows) == undisturbed(work)
    assert watch.repeated() == [], "what was there was computed again"
    kept = [one for one in executed if not one.startswith("row-")]
    assert again(kept) <= assassin.lost, Counter(executed)
    assert mini.gone(), f"left behind: {mini.left()}"
    assert mini.unfinished() == []


def victims_of(kinds: tuple[str, ...], seed: int, count: int) -> list[str]:
    """Every kind as often as any other, in an order of its own."""
    chosen = [kinds[number % len(kinds)] for number in range(count)]
    random.Random(seed).shuffle(chosen)
    return chosen


def kill_all(make: Make, seed: int, kinds: tuple[str, ...], count: int, server: PrivatePostgres | None = None) -> None:
    """So many kills, in as many sweeps as that takes."""
    victims = victims_of(kinds, seed, count)
    for number in range(count):
        store = {"store": server.new_place()} if server is not None else {}
        assassin = Assassin(seed + number * KILLS, make(**store), server)
        victims = assassin.complete(victims)
        check(assassin)
        if not victims:
            return
    raise AssertionError(f"sweeps were over before {victims} could be killed")


@pytest.mark.parametrize("seed", range(-(-KILLS // IN_ONE_SWEEP)))
def test_a_sweep_whose_processes_are_killed_has_its_rows_once_and_computes_nothing_again(make: Make, seed: int) -> None:
    count = min(IN_ONE_SWEEP, KILLS - seed * IN_ONE_SWEEP)
    kill_all(make, seed, ("driver", "worker", "runner"), count)


@pytest.mark.parametrize("seed", range(-(-KILLS // IN_ONE_SWEEP)))
def test_a_sweep_whose_server_is_killed_has_its_rows_once_and_computes_nothing_again(
    make: Make, own_postgres: PrivatePostgres, seed: int
) -> None:
    kill_all(make, seed, ("store", "driver", "store"), IN_ONE_SWEEP // 2, own_postgres)


def began(mini: Miniature, calls: list[str]) -> bool:
    return [each for each in mini.executed() if each in calls] == calls


def test_a_row_is_tried_as_often_as_the_policy_says_however_often_its_driver_is_killed(make: Make) -> None:
    policies = {"retry": {"delay": "0s", "times": 1}, "concurrency": {"normal": 50}}
    mini = make(sections={"policies": policies}, sweep={"variants": [1], "assets": ["A"], "folds": 1, "costs_bps": [1]})
    hold = mini.folder / "hold"
    hold.touch()
    for calls in (["fitted-A-1-0"], ["fitted-A-1-0"] * 2):
        started = mini.start()
        wait_for(partial(began, mini, calls), f"{len(calls)} calls", started)
        started.process.kill()
        assert started.wait() == -signal.SIGKILL and mini.gone()
    hold.unlink()
    started = mini.run()
    assert started.process.returncode == 1, started.said()
    [row] = mini.rows().values()
    assert (row.run_status, row.attempt) == (RowStatus.FAILED, 2)
    assert "used by drivers that died" in str(row.error) and mini.executed().count("fitted-A-1-0") == 2
    assert mini.run().process.returncode == 0, "who starts it after that gives it new attempts"
    [row] = mini.rows().values()
    assert row.finished and row.attempt == 3
    with open_store(mini.store_url) as store:
        lost, failed, finished = SweepStatus.LOST, SweepStatus.FAILED, SweepStatus.FINISHED
        assert [run.status for run in store.runs()] == [lost, lost, failed, finished]


@pytest.mark.journey
def test_a_sweep_that_is_asked_to_end_says_so_frees_its_place_and_goes_on_later(make: Make) -> None:
    mini = make()
    watch = Watch(mini)
    started = mini.start()
    wait_for(lambda: len(mini.executed()) >= 8 and mini.committed(), "some rows", started)
    started.process.terminate()
    assert started.wait() == 128 + signal.SIGTERM
    watch.look()
    with open_store(mini.store_url) as store:
        assert [run.status for run in store.runs()] == [SweepStatus.INTERRUPTED]
        assert store.leases().list() == []
    assert mini.gone()
    status, said = mini.here()
    assert status == 0, said
    assert metrics(mini.rows()) == undisturbed(mini.compiled())
    assert watch.repeated() == [] and mini.unfinished() == []
