"""The same sweep run twice at the same time, by two processes on one store: they share the rows."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scalable.store import Filter, Row, open_store
from tests.helpers.settings import without_settings
from tests.helpers.waiting import until

WITHIN_S = 120.0  # a hang is longer than anything a busy machine needs
ROWS = 24
MANIFEST = """
version: 1
project: {name: twice}
store: sqlite:///results.db
targets: {local: {provider: local, max_workers: 1, processes: true}}
policies: {retry: {delay: 0s%(retry)s}}
sweeps:
  many:
    run: work:row
    compare: {step: [0, 1, 2, 3, 4, 5]}
    over: {fold: [0, 1, 2, 3]}
"""
WORK = """
import os, time
from pathlib import Path

def row(step, fold):
    with open("calls.log", "a") as file:
        file.write(f"{step}-{fold} {os.getppid()}\\n")
    time.sleep(0.2)
    if Path(f"fail-{step}-{fold}").exists():
        raise ValueError("does not work")
    return {"score": float(step + fold)}
"""


@dataclass
class Twice:
    folder: Path
    started: int = 0

    def write(self, retry: str = "") -> None:
        (self.folder / "scalable.yaml").write_text(MANIFEST % {"retry": retry}, encoding="utf-8")
        (self.folder / "work.py").write_text(WORK, encoding="utf-8")

    def start(self) -> subprocess.Popen[bytes]:
        self.started += 1
        command = [sys.executable, "-m", "scalable", "run", "--sweep", "many", "--format", "json"]
        with self.output(self.started).open("wb") as output:
            return subprocess.Popen(
                command, cwd=self.folder, env=without_settings(), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip

    def output(self, number: int) -> Path:
        return self.folder / f"output-{number}.json"

    def outcome(self, number: int) -> dict[str, Any]:
        outcome: dict[str, Any] = json.loads(self.output(number).read_text(encoding="utf-8"))
        return outcome

    def calls(self) -> list[str]:
        path = self.folder / "calls.log"
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []

    def rows(self) -> list[Row]:
        with open_store(f"sqlite:///{self.folder}/results.db") as store:
            return list(store.rows(Filter(sweep="many")))


@pytest.fixture
def twice(tmp_path: Path) -> Twice:
    project = Twice(tmp_path)
    project.write()
    return project


def test_two_runs_share_the_rows_and_both_end_complete(twice: Twice) -> None:
    processes = [twice.start(), twice.start()]
    assert [process.wait(WITHIN_S) for process in processes] == [0, 0]
    assert max(Counter(twice.calls()).values()) == 1, "a row was computed twice"
    assert len(twice.calls()) == len(twice.rows()) == ROWS
    outcomes = [twice.outcome(number) for number in (1, 2)]
    assert [outcome["finished"] for outcome in outcomes] == [ROWS, ROWS]
    assert sum(outcome["computed"] for outcome in outcomes) == ROWS
    assert all(outcome["computed"] for outcome in outcomes), "both had a part of the work"
    assert all(outcome["elsewhere"] for outcome in outcomes)


def test_the_other_run_finishes_what_a_killed_one_had(twice: Twice) -> None:
    killed, other = twice.start(), twice.start()
    until(lambda: len(twice.calls()) >= 6, WITHIN_S)
    killed.kill()
    killed.wait(WITHIN_S)
    assert other.wait(WITHIN_S) == 0
    assert {row.run_status.value for row in twice.rows()} == {"finished"}
    assert len(twice.rows()) == ROWS
    again = [call for call, times in Counter(twice.calls()).items() if times > 1]
    assert len(again) <= 1, "only what was under way is computed once more"


def test_the_other_run_goes_on_at_once_with_what_an_interrupted_one_leaves(twice: Twice) -> None:
    interrupted, other = twice.start(), twice.start()
    until(lambda: len(twice.calls()) >= 6, WITHIN_S)
    interrupted.send_signal(signal.SIGINT)
    assert other.wait(WITHIN_S) == 0
    assert interrupted.wait(WITHIN_S) != 0
    assert len(twice.rows()) == ROWS
    assert all(row.finished for row in twice.rows())


def test_a_failing_row_is_tried_once_by_both_together(twice: Twice) -> None:
    twice.write(retry=", times: 0")
    (twice.folder / "fail-2-1").touch()
    processes = [twice.start(), twice.start()]
    codes = [process.wait(WITHIN_S) for process in processes]
    assert codes[0] == codes[1] != 0
    assert Counter(twice.calls())["2-1"] == 1
    assert max(Counter(twice.calls()).values()) == 1
    [failed] = [row for row in twice.rows() if not row.finished]
    assert (failed.attempt, "does not work" in (failed.error or "")) == (1, True)
    assert len(twice.rows()) == ROWS
