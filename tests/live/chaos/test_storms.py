"""Storms: drawn from a seed, made in time, told one by one, and over when they are over."""

from __future__ import annotations

from pathlib import Path

from scalable.chaos import storm
from tests.helpers.chaos.crowd import Crowd
from tests.helpers.waiting import until


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
