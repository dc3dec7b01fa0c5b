"""Which processes belong to a run; all others are safe."""

from __future__ import annotations

import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from scalable.chaos import NoVictimError, Processes, Scene, Wish
from scalable.chaos.victims import LOOPBACK, choose, own_addresses
from tests.helpers.chaos.crowd import Crowd
from tests.helpers.session.builders import Project
from tests.helpers.waiting import until


def test_workers_are_those_the_journal_tells_of(crowd: Crowd) -> None:
    found = Processes(crowd.run).workers()
    assert [(one.worker, one.pid) for one in found] == [(n, p.pid) for n, p in crowd.workers.items()]


def test_runners_are_the_topmost_marked_processes_below_workers(crowd: Crowd) -> None:
    found = Processes(crowd.run).runners()
    assert [one.worker for one in found] == ["model-0", "model-0", "model-1", "model-1"]
    parents = {pid for process in crowd.workers.values() for pid in children(process.pid)}
    assert {one.pid for one in found} == parents


def test_a_worker_that_left_is_no_victim(crowd: Crowd) -> None:
    living = Processes(crowd.run)
    assert len(living.workers()) == 2
    crowd.journal.write("worker-removed", worker="model-0", tag="model")
    crowd.journal.flush()
    assert [one.worker for one in living.workers()] == ["model-1"]


def test_a_later_process_with_the_number_of_a_worker_is_no_victim(crowd: Crowd) -> None:
    stranger = subprocess.Popen(["sleep", "300"])
    try:
        crowd.join("model-7", stranger.pid, t=time.time() - 3600)
        assert "model-7" not in [one.worker for one in Processes(crowd.run).workers()]
    finally:
        stranger.kill()
        stranger.wait()


def test_workers_on_other_machines_are_named_and_left_alone(project: Project) -> None:
    with Crowd.gathered(workers=0, runners=0) as crowd:
        crowd.join("model-0", os.getppid(), host="192.0.2.7")
        with pytest.raises(NoVictimError, match=r"here: they are on 192\.0\.2\.7; call this there"):
            Processes(crowd.run).workers()


def test_on_the_machine_of_a_worker_it_is_found_though_the_driver_is_elsewhere(crowd: Crowd) -> None:
    crowd.run.write_run({**crowd.run.facts(), "host": "login.example"})
    with pytest.raises(NoVictimError, match=r"is driven from login\.example; call this there"):
        Processes(crowd.run).driver()
    with pytest.raises(NoVictimError, match=r"they are on 127\.0\.0\.1"):  # which is login.example's own
        Processes(crowd.run).workers()
    reached_by = next(iter(own_addresses() - LOOPBACK))
    crowd.join("model-0", crowd.workers["model-0"].pid, host=reached_by)
    assert [one.worker for one in Processes(crowd.run).workers()] == ["model-0"]
    assert {one.worker for one in Processes(crowd.run).runners()} == {"model-0"}


def test_a_run_that_is_over_has_no_victims(crowd: Crowd) -> None:
    crowd.journal.write("ended", status="ok", reason="")
    crowd.journal.flush()
    for look in (Processes(crowd.run).workers, Processes(crowd.run).runners, Processes(crowd.run).driver):
        with pytest.raises(NoVictimError, match="is over"):
            look()


def test_workers_that_are_threads_of_the_driver_are_refused_in_words(project: Project) -> None:
    session = project.session()
    with session:
        living = Processes(session.folder)
        assert until(lambda: living.joined()[0])
        with pytest.raises(NoVictimError, match="threads of the driver; write processes: true"):
            living.workers()


def test_the_same_seed_picks_the_same_victim(crowd: Crowd) -> None:
    runners = Processes(crowd.run).runners()
    picks = [[choose(runners, random.Random(seed)).pid for seed in range(10)] for _ in range(2)]
    assert picks[0] == picks[1]
    assert len(set(picks[0])) > 1


def test_a_worker_can_be_named_and_an_unknown_name_lists_those_there_are(crowd: Crowd) -> None:
    scene = Scene(crowd.run)
    assert "model-1" in scene.prepare("kill-worker", Wish(worker="model-1")).what
    with pytest.raises(NoVictimError, match="'model-9' has no runner here; those that have: model-0, model-1"):
        scene.prepare("kill-runner", Wish(worker="model-9"))


def test_preparing_a_fault_does_nothing_and_making_it_does(crowd: Crowd) -> None:
    fault = Scene(crowd.run).prepare("kill-worker", Wish(worker="model-0"))
    victim = crowd.workers["model-0"]
    assert fault.what == f"kill worker model-0 (process {victim.pid})"
    assert victim.poll() is None
    with fault.make():
        assert until(lambda: victim.poll() == -9)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
