"""The trading workload gives the same rows however it is carried out: in a loop, by one, by two, after a kill."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.settings import remove_settings
from tests.helpers.sweeps.faults.miniature import Started, wait_for
from tests.helpers.sweeps.faults.trading import NAME, assert_same, naive, rows, swept, write

ONE = {"provider": "local", "max_workers": 1}
TWO = {"provider": "local", "max_workers": 2, "processes": True}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remove_settings(monkeypatch)
    monkeypatch.chdir(tmp_path)


def test_rows_by_one_worker_and_by_two_are_those_of_a_loop_that_shares_nothing(tmp_path: Path) -> None:
    assert_same(swept(tmp_path / "one", ONE), naive(), within=0.0)
    assert_same(swept(tmp_path / "two", TWO), naive(), within=0.0)


def test_rows_of_a_sweep_killed_within_its_searches_are_those_of_one_that_was_not(tmp_path: Path) -> None:
    write(tmp_path, TWO)
    output = tmp_path / "output.txt"
    with output.open("wb") as file:
        command = [sys.executable, "-m", "scalable", "run", "--sweep", NAME, "--format", "json"]
        started = Started(subprocess.Popen(command, stdout=file, stderr=file, stdin=subprocess.DEVNULL), output)
    scratch = tmp_path / "artefacts" / ".scratch" / "search"

    def within_a_search() -> bool:
        return any(len(file.read_bytes().splitlines()) >= 1 for file in scratch.glob("*/trials.jsonl"))

    try:
        wait_for(within_a_search, "a search that has some trials", started)
    finally:
        started.process.kill()
        started.wait()
    assert list(scratch.glob("*/trials.jsonl")), "what was tried is kept for whoever goes on"
    assert not (tmp_path / "results.db").exists() or len(rows(tmp_path)) < 8
    assert_same(swept(tmp_path, ONE), naive(), within=0.0)
    assert not list(scratch.glob("*"))
