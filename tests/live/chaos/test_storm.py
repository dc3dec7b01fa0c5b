"""Short runs in a storm of faults: each ends once, what is done is not done again, and nothing leaks.

400 runs and 40 faults, as dense as the 2,000 and 200 of ``make test-all``.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from benchmarks.peers import TAG
from benchmarks.sessions import opened, submit

from scalable import proc
from scalable.chaos.victims import environment
from scalable.observe import read
from scalable.session.session import ScalableSession
from scalable.store import Fate, Row, open_store
from tests.helpers.session.builders import Project
from tests.helpers.waiting import until

SEED = 20260415
RUNS, FAULTS, OVER_S = (2000, 200, 40) if os.environ.get("SCALABLE_LONG") else (400, 40, 8)
NAP_S = 2.5 * OVER_S / RUNS  # two workers are busy for longer than the storm lasts, so that it finds victims
WARM_UP = 100
KINDS = "kill-runner=44,stop-runner=4,kill-worker=2"
PATIENT: dict[str, Any] = {"policies": {"retry": {"times": 1000, "delay": "0.01s", "cap": "0.1s"}}}
MORE_FILES = 30  # open files a process may have beyond its warm-up: a few connections come and go
MORE_MEMORY = 100 << 20  # bytes; what is kept of 2,000 runs is far less
LONG_S = 180.0
MARK = "STORM_OF_THIS_TEST"


def note_and_work(folder: str, number: int) -> int:
    """Leaves a line for each time it is begun."""
    with open(f"{folder}/{number}", "a", encoding="ascii") as file:  # noqa: PTH123 - as little time as possible
        file.write(f"{time.time()}\n")
    time.sleep(NAP_S)
    return number


def test_a_storm_loses_nothing_repeats_nothing_and_leaks_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = secrets.token_hex(8)
    monkeypatch.setenv(MARK, token)
    notes = project.folder / "notes"
    notes.mkdir()
    with opened(**PATIENT) as session:
        carry_out(session, notes, range(-WARM_UP, 0), {})
        before = Footprint.of(session)
        storm = begin_storm(session)
        ended: dict[int, float] = {}
        try:
            values = carry_out(session, notes, range(RUNS), ended)
            told = json.loads(storm.communicate(timeout=LONG_S)[0])
        finally:
            storm.kill()
            storm.wait()
        assert sorted(values) == list(range(RUNS))
        assert told["made"] >= FAULTS // 2, told  # some find no victim: on a busy machine the next starts slowly
        check_ends(session)
        check_nothing_done_was_done_again(notes, ended)
        check_rows(project.folder / "results.db", values)
        after = Footprint.of(session)
        assert until(lambda: not zombies()), zombies()
        assert after.files <= before.files + MORE_FILES, (before, after)
        assert after.memory <= before.memory + MORE_MEMORY, (before, after)
    assert until(lambda: not left_behind(token)), left_behind(token)


def begin_storm(session: ScalableSession) -> subprocess.Popen[bytes]:
    options = {"--run-id": session.folder.path, "--seed": SEED, "--faults": FAULTS, "--over": OVER_S, "--kinds": KINDS}
    command = [sys.executable, "-m", "scalable", "chaos", "storm", "--format", "json"]
    command += [str(part) for option in options.items() for part in option]
    env = {name: value for name, value in os.environ.items() if name != MARK}
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=env)


def carry_out(session: ScalableSession, notes: Path, numbers: range, ended: dict[int, float]) -> list[int]:
    """The values of all runs; when each was known to have ended is noted."""
    ends = submit(session, note_and_work, [{"folder": str(notes), "number": number} for number in numbers])
    for number, future in zip(numbers, ends.values(), strict=True):
        future.add_done_callback(lambda _, number=number: ended.__setitem__(number, time.time()))  # type: ignore[misc]
    outcomes = [future.result(LONG_S) for future in ends.values()]
    assert Counter(state.value for state, _ in outcomes) == {"finished": len(numbers)}
    return [value for _, value in outcomes]


def check_ends(session: ScalableSession) -> None:
    """Every run has one end, and one attempt that finished."""
    session.live().journal.flush()
    records: list[dict[str, Any]] = list(read(session.folder.journal))
    ends = Counter(one["run"] for one in records if one["kind"] == "run-ended")
    finished = Counter(one["run"] for one in records if one["kind"] == "attempt-ended" and one["outcome"] == "finished")
    assert len(ends) == len(finished) == RUNS + WARM_UP
    assert set(ends.values()) == set(finished.values()) == {1}
    lost = Counter(one["outcome"] for one in records if one["kind"] == "attempt-ended" and one["outcome"] != "finished")
    assert lost.total() >= FAULTS // 10, lost  # else the storm missed


def check_nothing_done_was_done_again(notes: Path, ended: dict[int, float]) -> None:
    for number, when in ended.items():
        begun = [float(line) for line in (notes / str(number)).read_text(encoding="ascii").split()]
        assert begun, number
        assert max(begun) < when, f"run {number} was begun again after it had ended"
    again = sum(len((notes / str(number)).read_text(encoding="ascii").split()) - 1 for number in range(RUNS))
    assert again <= 2 * FAULTS  # what a fault costs is the run it hit, seldom more


def check_rows(path: Path, values: list[int]) -> None:
    with open_store(f"sqlite:///{path}") as store:
        rows = [Row(run_key=f"{value:032x}", name=TAG, value=value) for value in values]
        assert store.put(rows).fate is Fate.COMMITTED
        assert len(list(store.rows())) == RUNS


@dataclass(frozen=True, slots=True)
class Footprint:
    """Of the driver or a worker, whichever has more of each."""

    files: int
    memory: int

    @classmethod
    def of(cls, session: ScalableSession) -> Footprint:
        pids = [os.getpid(), *worker_pids(session)]
        return cls(max(map(open_files, pids)), max(map(proc.resident, pids)))


def worker_pids(session: ScalableSession) -> list[int]:
    workers = session.live().cluster.scheduler.workers.values()
    return [worker.pid for worker in list(workers) if proc.alive(worker.pid)]


def open_files(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0


def zombies() -> list[int]:
    """Dead children that nobody collected, of this process and all below it."""
    seen = [process for pid in proc.tree(os.getpid()) if (process := proc.look(pid)) is not None]
    return [process.pid for process in seen if process.state == "Z"]


def left_behind(token: str) -> list[int]:
    """Processes that descend from the session and have outlived it."""
    own = os.getpid()
    return [pid for pid in proc.pids() if pid != own and environment(pid).get(MARK) == token and proc.alive(pid)]
