"""``scalable run``: tasks and workflow scripts in real processes; the exit status is the truth."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scalable.cli.commands.run import computed
from scalable.cli.main import main
from scalable.session.sweep.outcomes import SweepOutcome
from tests.helpers.waiting import until

MANIFEST = """version: 1
project: {name: small}
targets:
  local: {provider: local, max_workers: 2, processes: true}
  threads: {provider: local, max_workers: 2}
components: {simulate: {cpus: 1, memory: 1GiB}, summarise: {cpus: 1}}
tasks:
  first: {component: simulate, run: "models:first", arguments: {number: 3}}
  second: {component: summarise, run: "models:second", needs: [first]}
  broken: {component: summarise, run: "models:broken"}
  follows: {component: summarise, run: "models:second", needs: [broken]}
  by_script: {component: simulate}
"""
MODELS = """
def first(number): return number * 2
def second(**given): return {"got": given}
def broken(): raise ValueError("no data for 2031")
"""
WORKFLOW = """
import os, sys
from models import first
from scalable import ScalableSession
session = ScalableSession.from_yaml()
client = session.start()
print(client.gather(client.map(first, [1, 2, 3], tag="simulate")), sys.argv[1:])
session.close()
"""
PATIENCE_S = 60


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("MANIFEST", "TARGET", "RUNS_DIR"):
        monkeypatch.delenv(f"SCALABLE_{name}", raising=False)
    Path("scalable.yaml").write_text(MANIFEST)
    Path("models.py").write_text(MODELS)
    Path("workflow.py").write_text(WORKFLOW)
    return tmp_path


def scalable(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(arguments), capture_output=True, text=True, timeout=PATIENCE_S)


def command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "scalable", *arguments]


def journal() -> list[dict[str, Any]]:
    (path,) = Path(".scalable/runs").glob("*/journal.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_task_runs_with_those_it_needs_and_its_result_is_shown() -> None:
    done = scalable("run", "--task", "second", "--format", "json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["results"] == {"first": 6, "second": {"got": {"first": 6}}}
    assert journal()[-1]["status"] == "ok"
    started = [one["tag"] for one in journal() if one["kind"] == "attempt-started"]
    assert started == ["simulate", "summarise"]


def test_one_failed_task_fails_the_run_names_its_reason_and_keeps_the_others() -> None:
    done = scalable("run")
    assert done.returncode == 1
    assert "2 of 4 tasks did not finish" in done.stderr
    assert "no data for 2031" in done.stderr
    assert "follows: not started: broken did not finish" in done.stderr
    assert "Traceback" not in done.stderr
    ended = {one["run"]: one["state"] for one in journal() if one["kind"] == "run-ended"}
    assert ended == {"first": "finished", "second": "finished", "broken": "failed"}
    assert journal()[-1]["status"] == "failed"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--task", "thrid"], ["task 'thrid' is not defined", "first"]),
        (["--task", "by_script"], ["tasks.by_script does not say what to run", "run: package.module:function"]),
        (["--workflow", "none.py"], ["there is no workflow none.py"]),
        (["--workflow", "workflow.py", "--task", "first"], ["not several of them"]),
        (["--target", "nowhere"], ["no target 'nowhere'", "local"]),
    ],
)
def test_wrong_use_is_refused_before_anything_starts(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *arguments]) == 2
    message = capsys.readouterr().err
    assert all(word in message for word in words), message
    assert not Path(".scalable").exists()


def test_a_workflow_gets_the_live_session_and_its_own_arguments() -> None:
    done = scalable("run", "--workflow", "workflow.py", "--", "--year", "2030")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[2, 4, 6] ['--year', '2030']\n"
    assert "ok in" in done.stderr and "3 tasks done" in done.stderr
    assert sum(one["kind"] == "run-started" for one in journal()) == 1


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        ("sys.exit(3)", 3, "exit status 3"),
        ("sys.exit('nothing to do')", 1, "exit status 1"),
        ("sys.exit()", 0, ""),
        ("raise RuntimeError('no grid')", 1, "RuntimeError: no grid"),
        ("client.submit(first, 1, tag='nobody')", 1, "UnknownTagError"),
    ],
)
def test_the_exit_status_of_a_workflow_is_the_truth(line: str, status: int, words: str) -> None:
    Path("workflow.py").write_text(f"{WORKFLOW}{line}\n")
    done = scalable("run", "--target", "threads", "--workflow", "workflow.py")
    assert done.returncode == status
    assert words in journal()[-1]["reason"]
    assert journal()[-1]["status"] == ("ok" if status == 0 else "failed")
    if "raise" in line:
        assert 'File "workflow.py", line 9' in done.stderr
        assert "runpy" not in done.stderr


def test_a_workflow_whose_sweep_lacks_rows_has_not_succeeded() -> None:
    sweep = "{factor: step, run: 'models:row', variants: [0, 1], assets: [A], folds: 1, run_minutes: 0.01}"
    head, _, _ = MANIFEST.partition("components:")
    Path("scalable.yaml").write_text(f"{head}sweeps: {{trial: {sweep}}}\n")
    Path("models.py").write_text("def row(step, asset, fold): return {'score': 1 / (1 - step)}\n")
    Path("workflow.py").write_text(
        "from scalable import ScalableSession\nprint(ScalableSession.from_yaml().run_sweep('trial').finished)\n"
    )
    done = scalable("run", "--target", "threads", "--workflow", "workflow.py")
    assert (done.returncode, done.stdout) == (1, "1\n"), done.stderr
    assert journal()[-1]["status"] == "failed" and "ZeroDivisionError" in journal()[-1]["reason"]


@pytest.mark.journey
def test_ctrl_c_stops_a_workflow_and_leaves_nothing_behind() -> None:
    Path("workflow.py").write_text(f"{WORKFLOW}print('here', flush=True)\nimport time\ntime.sleep(600)\n")
    process = subprocess.Popen(
        command(["run", "--workflow", "workflow.py"]), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while "here" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "interrupted in" in err and "Traceback" not in err
    workers = [one["pid"] for one in journal() if one["kind"] == "worker-joined"]
    assert len(workers) == 2 and not any(map(lives, workers))
    assert journal()[-1]["status"] == "interrupted"


def test_status_and_logs_tell_of_a_run_from_another_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    def told(*arguments: str) -> str:
        assert main(arguments) == 0
        return capsys.readouterr().out

    def tasks_wait() -> bool:
        tasks = json.loads(told("status", "--format", "json"))["run"]["tasks"]
        return bool(tasks.get("simulate", {}).get("waiting") == 2)

    Path("workflow.py").write_text(
        "import sys, time\nfrom scalable import ScalableSession\n"
        "def wait(n):\n    print('task', n, flush=True)\n    time.sleep(600)\n"
        "client = ScalableSession.from_yaml().start()\n"
        "futures = [client.submit(wait, n, tag='simulate') for n in range(3)]\n"
        "print('here', flush=True)\nclient.gather(futures)\n"
    )
    process = subprocess.Popen(
        command(["run", "--workflow", "workflow.py"]), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "here\n"
        assert until(tasks_wait)
        status = json.loads(told("status", "--format", "json"))["run"]
        assert status["state"] == "running"
        assert status["workers"]["simulate"] == {"live": 1, "busy": 1, "pending": 0, "reasons": {}}
        assert status["tasks"]["simulate"] == {"waiting": 2, "running": 1, "done": 0, "failed": 0}
        assert until(lambda: "task 0" in told("logs"))
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)


def test_what_a_start_of_a_sweep_computed_is_told_as_it_is() -> None:
    whole = SweepOutcome("mine", 4, 4)
    assert computed(whole) == "nothing: every row was there"
    assert computed(replace(whole, finished=1, missing=("a", "b", "c"), stopped="the budget is used up")) == "nothing"
    assert computed(replace(whole, computed=2, seconds=2.0)) == "2 of 4 rows in 2 s"
    assert computed(replace(whole, computed=2, seconds=2.0, executed={"fit": 1})) == "2 of 4 rows in 2 s: fit 1"


def test_progress_in_a_pipe_is_plain_lines_on_stderr() -> None:
    Path("models.py").write_text("import time\ndef first(number):\n    time.sleep(1.2)\n    return number\n")
    done = scalable("run", "--task", "first")
    assert "2 workers" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stdout.split() == ["first", "3"]


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
