"""Storms: drawn from a seed, made in time, told one by one, and over when they are over."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from scalable.chaos import ChaosError, plan, storm
from tests.chaos.crowd import Crowd
from tests.waiting import until


def test_a_seed_gives_one_storm_and_another_seed_another() -> None:
    assert plan(7, 50, 60) == plan(7, 50, 60)
    assert plan(7, 50, 60) != plan(8, 50, 60)


def test_faults_come_in_order_within_the_time_and_by_their_weights() -> None:
    drawn = plan(1, 1000, 60, {"kill-runner": 9, "kill-worker": 1})
    assert [one.at for one in drawn] == sorted(one.at for one in drawn)
    assert drawn[0].at >= 0
    assert drawn[-1].at <= 60
    assert 850 < Counter(one.name for one in drawn)["kill-runner"] < 950


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(ChaosError, match="no fault 'kill-moon'; there are kill-worker"):
        plan(1, 1, 1, {"kill-moon": 1})


def test_a_storm_hits_runners_and_leaves_none_of_them_stopped(crowd: Crowd) -> None:
    before = set(crowd.marked())
    made = list(storm(crowd.run, seed=3, faults=20, over=4, kinds={"kill-runner": 1, "stop-runner": 1}))
    assert len(made) == 20
    assert all(one.made for one in made), made
    assert {one.name for one in made} == {"kill-runner", "stop-runner"}
    assert before - set(crowd.marked())
    assert until(lambda: not stopped(crowd))
    assert all(process.poll() is None for process in crowd.workers.values())


def test_a_storm_ends_with_its_run(crowd: Crowd) -> None:
    faults = storm(crowd.run, seed=3, faults=1000, over=2, kinds={"kill-runner": 1})
    assert next(faults).made
    crowd.journal.write("ended", status="ok", reason="")
    crowd.journal.flush()
    assert len(list(faults)) < 10


def test_a_fault_without_a_victim_is_told_and_the_storm_goes_on(crowd: Crowd) -> None:
    for process in crowd.workers.values():
        process.kill()
        process.wait()
    made = list(storm(crowd.run, seed=1, faults=1, over=0.1, kinds={"kill-worker": 1}, patience_s=0.2))
    assert [one.made for one in made] == [False]
    assert "no worker process here" in made[0].what


def stopped(crowd: Crowd) -> list[int]:
    found = []
    for pid in crowd.marked():
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state == "T":
            found.append(pid)
    return found
