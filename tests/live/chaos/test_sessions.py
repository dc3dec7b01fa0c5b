"""Faults in live sessions with worker processes, by the command: the work goes on and ends well."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from scalable.cli.main import main
from scalable.session.session import ScalableSession
from tests.helpers.chaos.crowd import Crowd
from tests.helpers.session.builders import Project, nap
from tests.helpers.waiting import LONG_S, until

Printed = Callable[..., tuple[int, str]]


@pytest.fixture
def chaos(capsys: pytest.CaptureFixture[str]) -> Printed:
    """Call ``scalable ops chaos …``; its status and what it printed."""

    def call(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        status = main(["ops", "chaos", *arguments])
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return call


def opened(project: Project, workers: int = 1) -> ScalableSession:
    return project.session(
        target={"processes": True, "max_workers": workers}, policies={"retry": {"times": 3, "delay": "0.1s"}}
    )


def ready(project: Project, workers: int = 1) -> bool:
    return until(lambda: len(project.journal("worker-joined")) == workers)


def test_a_killed_worker_is_replaced_and_its_task_done(project: Project, chaos: Printed) -> None:
    with opened(project) as client:
        assert ready(project)
        future = client.submit(nap, 1.0, tag="demeter")
        status, text = chaos("kill-worker", "--seed", "1")
        assert status == 0
        assert re.search(r"kill worker demeter-0 \(process \d+\)", text)
        assert future.result(LONG_S) != "demeter-0"


def test_a_worker_whose_connection_was_cut_is_replaced_and_its_task_done(project: Project, chaos: Printed) -> None:
    with opened(project) as client:
        assert ready(project)
        future = client.submit(nap, 1.0, tag="demeter")
        status, text = chaos("cut-network")
        assert (status, "break the connection of worker demeter-0" in text) == (0, True)
        assert future.result(LONG_S)
        assert until(lambda: len(project.journal("worker-joined")) == 2)


def test_a_frozen_worker_goes_on_afterwards(project: Project, chaos: Printed) -> None:
    with opened(project) as client:
        assert ready(project)
        status, text = chaos("cut-network", "--how", "freeze", "--seconds", "0.5")
        assert (status, "for 0.5 s" in text, text.endswith("undone\n")) == (0, True, True)
        assert client.submit(nap, 0, tag="demeter").result(LONG_S) == "demeter-0"


def test_a_lost_node_is_replaced(project: Project, chaos: Printed) -> None:
    with opened(project, workers=2) as client:
        assert ready(project, workers=2)
        futures = [client.submit(nap, 0.5, number, tag="demeter") for number in range(4)]
        assert chaos("lose-node", "--worker", "demeter-1")[0] == 0
        assert len([future.result(LONG_S) for future in futures]) == 4


def test_the_store_of_a_run_is_found_and_blocked(project: Project, chaos: Printed) -> None:
    code = project.module("def one(): return 1")
    tasks = {"one": {"component": "demeter", "run": f"{code}:one"}}
    session = project.session(store="sqlite:///here/results.db", tasks=tasks)
    with session:
        session.run_tasks()
        assert until(lambda: project.journal("worker-joined"))
        status, text = chaos("block-store", "--seconds", "0.2")
        assert (status, str(project.folder / "here/results.db") in text) == (0, True)
        assert chaos("block-store", "--store", "sqlite:///nowhere.db")[0] == 1


def test_a_run_in_one_process_has_no_connection_to_cut(project: Project, chaos: Printed) -> None:
    with project.session():
        assert until(lambda: project.journal("worker-joined"))
        status, text = chaos("cut-network")
        assert (status, "threads of the driver; write processes: true" in text) == (1, True)


def test_a_storm_is_told_in_lines_and_as_json(crowd: Crowd, chaos: Printed) -> None:
    few = ("storm", "--seed", "5", "--faults", "3", "--over", "0.5", "--kinds", "kill-runner=2,stop-runner")
    status, text = chaos(*few)
    assert status == 0
    assert text.splitlines()[0].split() == ["after", "fault", "for", "what"]
    assert text.splitlines()[-1] == f"3 faults made in {crowd.run.run_id}, seed 5"
    status, text = chaos(*few, "--format", "json")
    told: dict[str, Any] = json.loads(text)
    assert [one["made"] for one in told["faults"]] == [True] * 3


def test_a_storm_is_told_while_it_lasts(crowd: Crowd) -> None:
    rate = ("--faults", "500", "--over", "250", "--kinds", "kill-runner")
    command = [sys.executable, "-m", "scalable", "chaos", "storm", *rate, "--run-id", str(crowd.run.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as storm:
        try:
            assert storm.stdout is not None
            told = [storm.stdout.readline() for _ in range(2)]
            assert "kill runner of" in told[1] or "not made" in told[1]
            assert storm.poll() is None
        finally:
            storm.kill()


def test_a_fault_is_told_with_its_time_in_utc_as_everything_else_is(
    crowd: Crowd, chaos: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        before = int(time.time())
        status, text = chaos("kill-runner")
        after = int(time.time())
    time.tzset()
    assert status == 0
    assert text[:8] in {f"{datetime.fromtimestamp(when, UTC):%H:%M:%S}" for when in range(before, after + 1)}


def test_without_a_run_nothing_happens(project: Project, chaos: Printed) -> None:
    status, text = chaos("kill-worker")
    assert (status, "nothing is running" in text) == (1, True)


def test_with_several_runs_one_must_be_named(crowd: Crowd, chaos: Printed) -> None:
    with Crowd.gathered(workers=1, runners=1) as other:
        status, text = chaos("kill-runner")
        assert (status, "2 sessions are running; say which with --run-id" in text) == (2, True)
        assert chaos("kill-runner", "--run-id", other.run.run_id)[0] == 0
        assert len(crowd.marked()) == 8


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["stop-runner", "--seconds", "soon"], "--seconds"),
        (["storm", "--faults", "-1"], "--faults is '-1'; write a whole number from 0"),
        (["storm", "--kinds", "kill-moon"], "there is no fault 'kill-moon'; there are kill-worker"),
        (["storm", "--kinds", "kill-worker=often"], "--kinds is 'often'; write a number from 0"),
        (["storm", "--kinds", "kill-worker=0"], "--kinds: nothing can be drawn from 'kill-worker=0'"),
        (["fill-memory", "--leave", "much"], "--leave"),
    ],
)
def test_options_that_cannot_be_read_are_told(crowd: Crowd, chaos: Printed, arguments: list[str], words: str) -> None:
    status, text = chaos(*arguments)
    assert (status, words in text) == (2, True), text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_person_is_asked(crowd: Crowd, chaos: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    status, text = chaos("kill-worker", "--worker", "model-0")
    assert (status, "kill worker model-0" in text, "[y/N]" in text) == (1, True, True)
    assert crowd.workers["model-0"].poll() is None
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    assert chaos("kill-worker", "--worker", "model-0", "--yes")[0] == 0
    assert until(lambda: crowd.workers["model-0"].poll() == -9)


def test_a_disk_is_not_filled_to_the_brim(crowd: Crowd, chaos: Printed) -> None:
    status, text = chaos("fill-disk", "--leave", "1B", "--yes")
    assert (status, "too little to leave free; write at least 16 MiB" in text) == (1, True)
