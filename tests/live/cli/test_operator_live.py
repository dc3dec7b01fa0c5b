"""Operators' commands against a live session: another process, asked from this one through its run folder."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from scalable import proc
from scalable.cli.main import main
from scalable.observe import RunFolder
from scalable.observe.mailbox import ask
from tests.helpers.settings import remove_settings, without_settings
from tests.helpers.waiting import LONG_S, until

MANIFEST = """version: 1
project: {name: small}
targets: {local: {provider: local, max_workers: 2, processes: true}}
components: {model: {cpus: 1, memory: 1GiB}}
policies: {scaling: {cooldown: 0s}}
tasks:
  search: {component: model, run: "models:search", arguments: {name: one}}
  other: {component: model, run: "models:search", arguments: {name: two}}
  third: {component: model, run: "models:search", arguments: {name: three}}
  last: {component: model, run: "models:broken", needs: [search]}
"""
MODELS = """
import time
from pathlib import Path
from scalable import progress

def search(name):
    for trial in range(22, 100_000):
        progress(trial, 30, "trial")
        Path(f"{name}.trial").write_text(str(trial))
        wait_for_better_times()
        if Path(f"{name}.go").exists():
            return name

def wait_for_better_times():
    time.sleep(0.02)
    return sum(range(100_000))

def broken(search):
    raise ValueError(f"no data after {search}")
"""


NAMES = {"search": "one", "other": "two", "third": "three"}  # the files by which each is told to end


@dataclass(frozen=True)
class Session:
    """``scalable run`` in a process of its own, in a folder of its own."""

    folder: Path
    process: subprocess.Popen[str]

    def scalable(self, *arguments: str, status: int = 0) -> str:
        """What a command prints, called in this process: its result, or why it has none."""
        out, err = io.StringIO(), io.StringIO()
        with chdir(self.folder), redirect_stdout(out), redirect_stderr(err):
            ended = main(arguments)
        assert ended == status, (arguments, out.getvalue(), err.getvalue())
        return out.getvalue() if status == 0 else err.getvalue()

    def shell(self, *arguments: str) -> str:
        """The same in a process of its own, for what changes the process it is called in."""
        command = [sys.executable, "-m", "scalable", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=environment(), capture_output=True, text=True, timeout=LONG_S
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def told(self, *arguments: str) -> Any:
        return json.loads(self.scalable(*arguments, "--format", "json"))

    @property
    def run(self) -> RunFolder:
        [found] = RunFolder.list(self.folder / ".scalable" / "runs")
        return found

    def doing(self) -> dict[str, dict[str, Any]]:
        """What runs now and has reported a step, by run."""
        workers = ask(self.run, "workers")["workers"]
        runs = {one["run"]: {**one, **worker} for worker in workers for one in worker["runs"]}
        return {name: one for name, one in runs.items() if one["step"] is not None}

    def two(self) -> dict[str, dict[str, Any]]:
        """The two runs that two workers do."""
        return until(lambda: now if len(now := self.doing()) == 2 else {})

    def journal(self, kind: str) -> list[dict[str, Any]]:
        lines = self.run.journal.read_text().splitlines()
        return [one for line in lines if line.endswith("}") and (one := json.loads(line))["kind"] == kind]

    def let_go(self, *runs: str) -> None:
        for run in runs:
            (self.folder / f"{NAMES[run]}.go").touch()


def environment() -> dict[str, str]:
    ours = without_settings()
    return {**ours, "COLUMNS": "140"}


@contextmanager
def a_session(folder: Path, *arguments: str, manifest: str = MANIFEST, runs: int = 2) -> Iterator[Session]:
    """Two searches run until they are told to end, a third one waits for a worker."""
    (folder / "scalable.yaml").write_text(manifest)
    (folder / "models.py").write_text(MODELS)
    process = subprocess.Popen(
        [sys.executable, "-m", "scalable", "run", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=environment(),
        start_new_session=True,
    )
    session = Session(folder, process)
    try:
        assert until(lambda: len(list(folder.glob("*.trial"))) == runs or process.poll() is not None)
        yield session
    finally:
        session.let_go(*NAMES)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=LONG_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise


@pytest.fixture(autouse=True)
def a_wide_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    remove_settings(monkeypatch)
    monkeypatch.setenv("COLUMNS", "140")


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """One that is only looked at."""
    with a_session(tmp_path_factory.mktemp("live")) as session:
        yield session


def test_workers_are_listed_with_what_they_do(live: Session) -> None:
    found = live.two()
    run, facts = sorted(found.items())[0]
    assert (facts["tag"], facts["state"], facts["of"], facts["note"]) == ("model", "busy", 30, "trial")
    assert facts["idle_s"] < LONG_S
    assert facts["memory"] > 1_000_000 and facts["memory_limit"] == 1024**3
    assert proc.alive(facts["pid"])
    lines = live.scalable("workers").splitlines()
    assert lines[0].split() == ["worker", "tag", "state", "run", "step", "idle", "memory", "CPU", "host"]
    assert re.search(rf"model-\d +model +busy +{run} +trial \d+/30 ", "\n".join(lines))
    assert {one["worker"] for one in live.told("workers")["workers"]} == {"model-0", "model-1"}


def test_threads_of_a_run_or_a_worker_are_shown(live: Session) -> None:
    run, facts = sorted(live.two().items())[0]
    for name in (run, facts["worker"]):
        assert "models.py" in live.scalable("dump", name)
    assert "wrote stacks.txt" in live.scalable("dump", run, "--output", "stacks.txt")
    assert "search (" in (live.folder / "stacks.txt").read_text()


def test_a_profile_is_a_picture_of_what_took_the_time(live: Session) -> None:
    run = sorted(live.two())[0]
    live.scalable("profile", run, "--seconds", "1", "--output", "flame.svg")
    picture = (live.folder / "flame.svg").read_text()
    assert "<svg" in picture and "search" in picture


def test_a_run_is_explained_while_it_runs_and_while_it_waits(live: Session) -> None:
    found = live.two()
    run = sorted(found)[0]
    explained = live.told("explain", run)
    assert explained["state"] == "running"
    assert re.search(r"runs on model-\d for .*, attempt 1, last sign of life", explained["lines"][0])
    assert re.search(r"now: trial \d+/30", explained["lines"][-1])
    waiting = (set(NAMES) - set(found)).pop()
    assert live.told("explain", waiting)["state"] in ("queued", "given")
    assert f"{waiting} is on no worker: it is " in live.scalable("dump", waiting, status=2)


def test_protections_of_a_live_worker_are_in_place(live: Session) -> None:
    live.two()
    checks = live.told("doctor", "--worker", "model-0")
    assert checks["ok"], checks
    status = {check["name"]: check["status"] for check in checks["checks"]}
    assert status["fork guard"] == status["thread pools"] == status["memory"] == status["versions"] == "ok"
    shown = live.scalable("doctor", "--worker", "model-0")
    assert "fork guard" in shown and shown.endswith("protected\n")


def test_a_session_that_is_stopped_is_told_as_that_and_goes_on_when_it_is_let(live: Session) -> None:
    os.kill(live.process.pid, signal.SIGSTOP)
    try:
        assert until(lambda: live.told("status")["run"]["stopped"] == live.process.pid)
        status = live.told("status")["run"]
        assert (status["state"], status["left_s"]) == ("running", None)
        assert f"kill -CONT {live.process.pid}" in " ".join(live.scalable("status").split())
    finally:
        os.kill(live.process.pid, signal.SIGCONT)
    assert until(lambda: live.told("status")["run"]["stopped"] is None)


def test_names_that_nothing_has_are_answered_with_those_there_are(live: Session) -> None:
    live.two()
    message = live.scalable("dump", "model-7", status=2)
    assert "worker or job 'model-7' is not defined" in message and "model-0" in message
    message = live.scalable("kill", "serach", status=2)
    assert (
        "worker, job or sweep 'serach' is not defined; known: model-0, model-1, other, search, third; write" in message
    )
    assert "3 jobs are not finished; name one of other, search, third" in live.scalable("explain", status=2)
    assert "worker 'model-7' is not defined" in live.scalable("doctor", "--worker", "model-7", status=2)


def test_a_person_at_a_terminal_is_asked_before_something_is_killed(live: Session) -> None:
    run, facts = sorted(live.two().items())[0]
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "scalable", "kill", run]
    process = subprocess.Popen(
        command, cwd=live.folder, env=environment(), stdin=theirs, stdout=subprocess.PIPE, stderr=theirs
    )
    try:
        os.close(theirs)
        shown = b""
        while b"[y/N]" not in shown:
            assert select.select([ours], [], [], LONG_S)[0], "it asked nothing"
            shown += os.read(ours, 1000)
        assert f"kill {run} of {live.run.run_id}?".encode() in shown
        os.write(ours, b"n\n")
        assert process.wait(LONG_S) == 1
    finally:
        process.kill()
        process.communicate()
        os.close(ours)
    assert live.two()[run]["pid"] == facts["pid"]


def test_what_operators_do_about_a_session_is_done_at_once_and_nothing_else_is(tmp_path: Path) -> None:
    with a_session(tmp_path) as session:
        victim = a_paused_session_starts_nothing_when_a_run_is_killed(session)
        runs_of_a_killed_worker_are_run_again_at_no_cost(session)
        a_pause_now_stops_what_runs_at_no_cost(session)

        living = session.two()
        assert sorted(session.told("kill", "all")["runs"]) == sorted(living)
        assert not any(proc.alive(one["pid"]) for one in living.values())
        out, _ = session.process.communicate(timeout=LONG_S)
        assert session.process.returncode == 1 and victim in out  # nothing is left to do

        assert "is over, failed" in session.scalable("workers")
        assert "killed by operator" in session.scalable("explain", victim)
        session.let_go(*NAMES)
        assert session.shell("debug", victim).strip() == f"'{NAMES[victim]}'"


def a_paused_session_starts_nothing_when_a_run_is_killed(session: Session) -> str:
    """Leaves the third one running in the place of the one that is returned."""
    found = session.two()
    answer = session.told("pause")
    assert (sorted(answer["running"]), answer["stopped"], answer["waiting"]) == (sorted(found), [], 1)
    victim, bystander = sorted(found)
    answer = session.told("kill", victim)
    assert (answer["killed"], answer["runs"]) == (f"job {victim}", [victim])
    assert not proc.alive(found[victim]["pid"])
    assert proc.alive(found[bystander]["pid"])
    assert f"{victim} is failed already" in session.scalable("kill", victim, status=2)
    explained = session.told("explain", victim)
    assert "killed by operator" in " ".join(explained["lines"]), explained
    assert [one["text"].split(",")[0] for one in explained["happened"]] == ["pause", f"kill {victim}"]

    waiting = (set(NAMES) - set(found)).pop()
    assert "paused by" in session.told("workers")["paused"]
    assert "paused by" in session.told("status")["run"]["paused"]
    assert "paused by" in session.told("explain", waiting)["lines"][0]
    assert set(session.doing()) == {bystander}
    assert "goes on" in session.scalable("resume")
    assert set(session.two()) == {bystander, waiting}
    assert "was not paused" in session.scalable("resume")
    return victim


def runs_of_a_killed_worker_are_run_again_at_no_cost(session: Session) -> None:
    run, facts = sorted(session.two().items())[0]
    answer = session.told("kill", facts["worker"], "--yes")
    assert (answer["killed"], answer["runs"]) == (f"worker {facts['worker']}", [run])
    assert answer["follows"].startswith("1 job is run again elsewhere")
    assert not proc.alive(facts["pid"])
    again = until(lambda: (now := session.doing().get(run)) and now["pid"] != facts["pid"] and now)
    assert again and again["attempt"] == 2
    assert session.journal("retry") == []


def a_pause_now_stops_what_runs_at_no_cost(session: Session) -> None:
    found = session.two()
    answer = session.told("pause", "--now")
    assert sorted(answer["stopped"]) == sorted(found)
    assert not any(proc.alive(one["pid"]) for one in found.values())
    assert until(lambda: not ask(session.run, "workers")["workers"])
    assert "has no workers now" in session.scalable("workers")
    session.scalable("resume")
    assert set(session.two()) == set(found)
    assert session.journal("retry") == []


def test_tasks_handed_to_dask_are_seen_and_what_cannot_be_done_about_them_is_said(tmp_path: Path) -> None:
    script = """
        import time
        from pathlib import Path
        from models import search
        from scalable import ScalableSession

        def wait():
            while not Path("plain.go").exists():
                time.sleep(0.05)

        if __name__ == "__main__":
            client = ScalableSession.from_yaml().start()
            guarded = client.submit(search, "one", tag="model", guarded=True)
            client.gather([guarded, client.submit(wait, tag="model", key="plain")])
    """
    (tmp_path / "workflow.py").write_text(dedent(script))
    manifest = MANIFEST.replace("max_workers: 2, processes: true", "max_workers: 1")  # both on the same worker
    with a_session(tmp_path, "--workflow", "workflow.py", manifest=manifest, runs=1) as session:
        [(guarded, facts)] = until(session.doing).items()
        assert guarded.startswith("search")
        assert "models.py" in session.scalable("dump", guarded)
        assert facts["worker"] in session.told("explain", guarded)["lines"][0]
        assert session.told("explain", "plain")["run"] == "plain"
        assert "handed to Dask directly, on model-" in session.told("explain", "plain")["lines"][0]
        assert "cancel its future, or kill its worker" in session.scalable("kill", guarded, status=2)
        assert "2 tasks handed to Dask directly cannot be paused" in session.scalable("pause")
        (tmp_path / "plain.go").touch()


SWEEP = """version: 1
project: {name: small}
targets: {local: {provider: local, max_workers: 1, processes: true}}
sweeps: {trial: {factor: depth, variants: [1, 2], assets: [A], folds: 2, run: "scored:score", run_minutes: 0.01}}
"""
SCORED = """
import time
from pathlib import Path

def score(depth, asset, fold):
    with open("calls", "a") as calls:
        calls.write(f"{depth} {fold}\\n")
    while fold == 1 and not Path("go").exists():
        time.sleep(0.02)
    return {"score": depth + fold}
"""


def test_a_stopped_run_keeps_its_rows_and_the_next_computes_the_rest(tmp_path: Path) -> None:
    (tmp_path / "scalable.yaml").write_text(SWEEP)
    (tmp_path / "scored.py").write_text(SCORED)
    run = [sys.executable, "-m", "scalable", "run", "--sweep", "trial"]
    process = subprocess.Popen(
        run, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    session = Session(tmp_path, process)
    calls = tmp_path / "calls"
    try:
        assert until(lambda: calls.exists() and " 1" in calls.read_text())
        preview = session.told("stop", "--dry-run")
        assert preview["dry_run"] and preview["state"] == "running" and len(preview["running"]) == 1
        assert process.poll() is None
        assert "--yes" in session.scalable("stop", status=2), "nobody can be asked here"
        stopped = session.told("stop", session.run.run_id, "--yes")
        assert stopped["state"] == "interrupted"
        assert process.wait(LONG_S) == 130
        [asked] = session.journal("operator")
        assert asked["ask"] == "stop"
        kept = session.told("results", "trial")["rows"]
        assert kept and len(kept) < 4
    finally:
        (tmp_path / "go").touch()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=LONG_S)
    before = calls.read_text().splitlines()
    session.shell("run", "--sweep", "trial")
    again = calls.read_text().splitlines()[len(before) :]
    finished = {f"{row['variant']} {row['fold']}" for row in kept}
    assert len(again) == 4 - len(finished) and not finished & set(again)
