"""The commands about runs: ``report``, ``status`` and ``logs``, on journals as sessions write and leave them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.cli.commands import Call, call
from tests.helpers.cli.runs import RUNS, a_story
from tests.helpers.cli.shells import shell
from tests.helpers.observe.builders import (
    a_live_run,
    a_run,
)
from tests.helpers.paths import ROOT

__all__ = ["call"]

PATIENCE_S = 60.0  # an upper bound against hanging, not a measure


def test_a_run_whose_process_was_killed_is_reported_as_far_as_it_got(call: Call) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    folder = a_run(RUNS, *a_story()[:20], end=False, pid=process.pid)
    with folder.journal.open("ab") as journal:
        journal.write(b'nonsense\n{"t": 1, "ki')
    out = call("report").out
    assert "interrupted (the process is gone)" in out
    assert "demeter: 5 started, 0 removed, 5 final" in out
    assert "1 line of the journal could not be read" in out
    assert "the journal ends in the middle of a line" in out


LIVE = """
import sys, time
from tests.helpers.observe.builders import *
folder = a_live_run(sys.argv[1], started("a"), joined("a"), started("b"),
    record("worker-pending", 6, worker="b", tag="demeter", reason="Priority"),
    record("gauge", 8, workers={"demeter": {"busy": 1}}, tasks={"demeter": {"waiting": 7, "running": 1, "done": 4}}))
folder.log("demeter-1").write_text("first\\n")
print(folder.run_id, flush=True)
for line in sys.stdin:
    if line == "end\\n":
        write(folder, [closed("a"), ended()])
    else:
        with folder.log("demeter-2").open("a") as log:
            log.write(line)
"""


@contextmanager
def a_session(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that runs; what it reads it logs, until it is told to end."""
    root = ROOT
    env = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", LIVE, str(folder / RUNS)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=env, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_status_shows_a_run_of_another_process_until_that_is_killed(call: Call, tmp_path: Path) -> None:
    with a_session(tmp_path) as session:
        run_id = answer(session)
        shown = call("status")
        assert shown.status == 0
        assert shown.out.startswith(f"{run_id}  running, ")
        out = " ".join(shown.out.split())
        assert "workers demeter 1 live, 1 busy, 1 pending (Priority)" in out
        assert "tasks demeter 7 waiting, 1 running, 4 done" in out
        found = call("status", "--format", "json").json
        assert found["running"] == [run_id]
        assert found["run"]["workers"]["demeter"]["reasons"] == {"Priority": 1}
        session.send_signal(signal.SIGKILL)
        session.wait(PATIENCE_S)
        gone = call("status")
        assert gone.status == 0
        assert gone.out.startswith(f"nothing is running; the last run was {run_id}: interrupted (the process is gone)")


@pytest.mark.parametrize("command", ["logs -f", "status --watch"])
def test_who_follows_ends_when_its_reader_is_gone(call: Call, tmp_path: Path, command: str) -> None:
    folder = a_live_run(RUNS)
    folder.logs.mkdir(exist_ok=True)
    folder.log("demeter-0").write_text("first line\n")
    process = subprocess.Popen([sys.executable, "-m", "scalable", *command.split()], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()  # as head does; nothing more is ever written
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()


def test_watching_goes_on_until_the_run_is_over(call: Call, tmp_path: Path) -> None:
    with a_session(tmp_path) as session:
        run_id = answer(session)
        watching = [sys.executable, "-m", "scalable", "status", "--watch", "--format", "json"]
        with subprocess.Popen(watching, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as watch:
            assert json.loads(answer(watch))["state"] == "running"
            tell(session, "end")
            out, _ = watch.communicate(timeout=PATIENCE_S)
            assert watch.returncode == 0
            assert json.loads(out.splitlines()[-1])["state"] == "ok"
    assert call("status", "--watch", "--run-id", run_id).out.startswith(f"{run_id}  ok")


def test_logs_are_followed_also_of_workers_that_come_later_until_the_run_ends(tmp_path: Path) -> None:
    with a_session(tmp_path) as session:
        answer(session)
        following = [sys.executable, "-m", "scalable", "logs", "-f"]
        with subprocess.Popen(following, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as follow:
            assert answer(follow) == "demeter-1 | first"
            tell(session, "second")
            assert answer(follow) == "demeter-2 | second"
            tell(session, "end")
            out, _ = follow.communicate(timeout=PATIENCE_S)
            assert (follow.returncode, out) == (0, "")


def test_following_ends_when_the_session_is_killed(tmp_path: Path) -> None:
    with a_session(tmp_path) as session:
        answer(session)
        following = [sys.executable, "-m", "scalable", "logs", "-f", "demeter-1"]
        with subprocess.Popen(following, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as follow:
            assert answer(follow) == "first"
            session.kill()
            session.wait(PATIENCE_S)
            assert follow.wait(PATIENCE_S) == 0


def test_following_is_interrupted_without_a_traceback(tmp_path: Path) -> None:
    a_live_run(tmp_path / RUNS).log("a").write_text("hello\n", encoding="utf-8")
    following = [sys.executable, "-m", "scalable", "logs", "-f"]
    with subprocess.Popen(following, cwd=tmp_path, stdout=-1, stderr=-1, text=True) as follow:
        assert answer(follow) == "a | hello"
        follow.send_signal(signal.SIGINT)
        _, err = follow.communicate(timeout=PATIENCE_S)
        assert follow.returncode == 130
        assert err == ""


def test_a_reader_that_goes_away_ends_the_command_quietly(tmp_path: Path) -> None:
    folder = a_run(tmp_path / RUNS, *a_story())
    folder.log("a").write_text("x\n" * 100_000, encoding="utf-8")
    for command in ("scalable report", "scalable logs --lines 100000"):
        done = shell(f"{command} | head -n 1", tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
