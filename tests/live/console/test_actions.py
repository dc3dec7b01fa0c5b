"""What an operator does from the page reaches the session and the store, as the commands would do it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from scalable.manifest.load import load_file
from scalable.observe import RunFolder, read
from scalable.observe.incidents import Incident, IncidentFolder
from scalable.observe.liveness import is_there
from scalable.observe.mailbox import Mailbox, Question
from scalable.show.console import feed
from scalable.show.console.sections import dead_letters
from scalable.store import Filter, Row, open_store
from scalable.sweeps.compiling import compiled
from scalable.sweeps.loading import importable
from scalable.sweeps.rows import row_of
from tests.helpers.browser.serving import served
from tests.helpers.console.client import Client
from tests.helpers.observe.builders import a_live_run, a_run, sweep_started
from tests.helpers.store.dead_letters import allow, refuse
from tests.helpers.waiting import until

MANIFEST = """version: 1
project: {name: small}
store: sqlite:///kept/results.db
targets: {hpc: {provider: local, max_workers: 1, processes: true}}
components: {model: {cpus: 1, memory: 1GiB}}
tasks: {search: {component: model, run: "models:search"}}
sweeps:
  trial: {factor: depth, variants: [1, 2], assets: [A, BB, CCC], folds: 2, costs_bps: [1], run: "models:score"}
"""
MODELS = """
import time
from scalable import progress

print("imported")

def search():
    for trial in range(100_000):
        progress(trial, 30, "trial")
        time.sleep(0.02)

def score(depth, asset, fold):
    return {"score": depth + len(asset) / 10 + fold / 7, "loss": 1 / depth + fold / 9}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a manifest, in which the console is opened."""
    for name in ("SCALABLE_STORE_URL", "SCALABLE_TARGET", "SCALABLE_MANIFEST", "SCALABLE_RUNS_DIR"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "scalable.yaml").write_text(MANIFEST)
    (folder / "models.py").write_text(dedent(MODELS))
    monkeypatch.chdir(folder)
    return folder


def a_run_of(project: Path, *records: Any) -> RunFolder:
    where: dict[str, Any] = {"manifest": str(project / "scalable.yaml"), "cwd": str(project)}
    return a_run(project / ".scalable/runs", sweep_started("trial"), *records, **where)


def stored(project: Path, share: float = 1.0) -> list[Row]:
    """Rows of the sweep as a session would have stored them."""
    made = load_file(project / "scalable.yaml", env={}, target="hpc", providers=("local",)).manifest
    with importable(project):
        found = compiled(made, "trial", {})
        from models import score  # type: ignore[import-not-found]

        sys.modules.pop("models")
    rows = [
        row_of("trial", found.grid, at, run_key=key, metrics=score(*at.variant, *at.block))
        for key, at in found.expected
    ]
    (project / "kept").mkdir(exist_ok=True)
    with open_store(f"sqlite:///{project}/kept/results.db") as store:
        assert store.put(rows[: int(len(rows) * share)]).safe
    return rows


@contextmanager
def answering(run: RunFolder, answer: Callable[[Question], dict[str, Any]]) -> Iterator[list[Question]]:
    """A session's mailbox, looked at by a thread of ours."""
    box, asked, over = Mailbox(run.control), list[Question](), threading.Event()

    def look() -> None:
        while not over.wait(0.01):
            for question in box.questions():
                asked.append(question)
                box.answer(question.id, answer(question))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield asked
    finally:
        over.set()
        thread.join()


def test_questions_reach_the_session_with_who_asked_and_its_answers_come_back_in_words(tmp_path: Path) -> None:
    run = a_live_run(tmp_path)
    answers: dict[str, dict[str, Any]] = {
        "pause": {"stopped": ["a"], "running": [], "waiting": 1, "outside": 2},
        "resume": {"was": "paused by me", "still": ""},
        "kill": {"killed": "worker w1", "runs": [], "follows": "another is asked for"},
        "dump": {"worker": "w1", "run": None, "text": "Thread 1\n  password=hunter2secret"},
    }
    with served(tmp_path) as guard, answering(run, lambda one: {"ok": True, **answers[one.ask]}) as asked:
        client = Client(guard)

        def done(action: str, **told: Any) -> Any:
            answer = client.post({"action": action, "run": run.run_id, **told})
            assert answer.status == 200 and answer.json["ok"] is True
            return answer.json

        paused = done("pause", now=True)["text"]
        assert paused.startswith("paused: 1 job stopped, to be run again at no retry's cost, 1 more waits, workers go")
        assert done("resume")["text"] == "it goes on"
        assert done("kill", target="w1")["text"] == "killed worker w1: another is asked for"
        dump = done("dump", target="w1")
        assert dump["dump"].startswith("Thread 1\n") and "hunter2" not in dump["dump"] and "w1" in dump["text"]
    assert [(one.ask, dict(one.arguments)) for one in asked] == [
        ("pause", {"now": True}), ("resume", {}), ("kill", {"target": "w1"}), ("dump", {"target": "w1"}),
    ]  # fmt: skip
    assert all(one.by.endswith("(console)") for one in asked)


def test_what_cannot_be_done_is_told_with_a_remedy(tmp_path: Path) -> None:
    over, live = a_run(tmp_path), a_live_run(tmp_path)
    refusal = {"ok": False, "error": "no worker is called w9", "usage": True}
    with served(tmp_path) as guard, answering(live, lambda one: refusal):
        client = Client(guard)
        for asked, status, words in (
            ({"action": "pause", "run": over.run_id}, 409, "is over"),
            ({"action": "kill", "run": live.run_id, "target": "w9"}, 400, "no worker is called w9"),
            ({"action": "kill", "run": live.run_id}, 400, "what is meant?"),
            ({"action": "mark-failed", "run": live.run_id, "target": "trial"}, 400, "reason is empty"),
            ({"action": "mark-failed", "run": live.run_id, "target": "x", "reason": "y"}, 409, "names no manifest"),
            ({"action": "puase", "run": live.run_id}, 400, "write pause"),
            ({"action": "pause", "run": f"{live.run_id[:-8]}00000000"}, 404, "is not recorded"),
        ):
            answer = client.post(asked)
            assert answer.status == status and answer.json["ok"] is False and words in answer.json["error"], asked


def test_a_live_session_is_looked_into_paused_and_its_run_killed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "EVERY_S", 0.05)
    process = subprocess.Popen([sys.executable, "-m", "scalable", "run"], cwd=project, stderr=subprocess.DEVNULL)
    runs = project / ".scalable/runs"
    try:
        with served(runs) as guard:
            client = Client(guard)
            run = RunFolder.open(until(lambda: client.get("/api/runs").json)[0]["run_id"], runs)
            with client.stream() as stream:
                while not any(worker["runs"] for worker in stream.until("workers")):
                    assert process.poll() is None
            asked = {"run": run.run_id, "target": "search"}
            assert until(lambda: "search" in client.post({"action": "dump", **asked}).json["dump"])
            assert client.post({"action": "pause", **asked}).json["text"] == "paused: 1 job may end"
            assert client.post({"action": "resume", **asked}).json["text"] == "it goes on"
            assert client.post({"action": "kill", **asked}).json["text"].startswith("killed job search: not run again")
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    told = [(one["ask"], one["by"].endswith("(console)")) for one in read(run.journal) if one["kind"] == "operator"]
    assert told == [("pause", True), ("resume", True), ("kill", True)]


def test_results_are_those_of_the_runs_own_store_until_they_are_marked_failed(project: Path) -> None:
    run, rows = a_run_of(project), stored(project)
    with served(project / ".scalable/runs") as guard:
        client = Client(guard)

        def results() -> Any:
            answer = client.get(f"/api/results?run={run.run_id}&sweep=trial")
            assert answer.status == 200
            return answer.json

        found = results()
        assert found["complete"] and (found["expected"], found["finished"], found["baseline"]) == (12, 12, "1")
        (variant,) = found["variants"]
        assert variant["variant"] == "2" and variant["verdict"] in ("LOCK", "KEEP_AVAILABLE", "ABANDON")
        score = next(metric for metric in variant["metrics"] if metric["name"] == "score")
        assert score["delta"] == pytest.approx(1.0) and set(score) == {
            "name",
            "role",
            "delta",
            "ci",
            "p",
            "p_corrected",
        }
        marked = client.post(
            {"action": "mark-failed", "run": run.run_id, "target": rows[0].run_key, "reason": "wrong prices"}
        ).json
        assert marked["text"] == f"marked 1 row of {rows[0].run_key} failed; the next run computes them again"
        assert not results()["complete"], "what was found before is forgotten"
    with open_store(f"sqlite:///{project}/kept/results.db") as store:
        assert [row.run_key for row in store.rows(Filter(sweep="trial")) if not row.finished] == [rows[0].run_key]


def test_of_a_run_that_somebody_sent_no_code_is_run_and_no_store_is_opened(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = a_run_of(project), stored(project)
    (project / "models.py").write_text(f"open({str(tmp_path / 'taken')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    with served(project / ".scalable/runs") as guard:
        client = Client(guard)
        found = client.get(f"/api/results?run={run.run_id}&sweep=trial").json
        replayed = client.post({"action": "replay", "run": run.run_id})
    assert f"code of {project}" in found["error"] and replayed.status == 409
    assert dead_letters(run) is None and not (tmp_path / "taken").exists()


def test_results_that_cannot_be_had_are_told_as_such_until_they_can(project: Path) -> None:
    run = a_run_of(project)
    with served(project / ".scalable/runs") as guard:
        client, address = Client(guard), f"/api/results?run={run.run_id}&sweep=trial"
        answer = client.get(address)
        assert answer.status == 200 and "no store at" in answer.json["error"]
        assert answer.json["error"].startswith("the results of trial cannot be read: ")
        assert not (project / "kept").exists(), "looking for a store makes none"
        stored(project)
        assert client.get(address).json["complete"]


def test_dead_letters_are_counted_and_replayed(project: Path) -> None:
    run, _ = a_run_of(project), stored(project, 0.5)
    with served(project / ".scalable/runs") as guard, Client(guard).stream(run.run_id) as stream:
        while stream.until("trouble")["dead_letters"] != 0:
            pass
        answer = Client(guard).post({"action": "replay", "run": run.run_id}).json
        assert answer["text"].startswith("there are no dead letters")


def test_a_store_that_is_set_in_the_environment_is_meant_from_here(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = a_run_of(project), stored(project)
    assert dead_letters(run) == 0
    (project / "kept").rename(project.parent / "moved")
    monkeypatch.chdir(project.parent)
    monkeypatch.setenv("SCALABLE_MANIFEST", str(project / "scalable.yaml"))
    assert dead_letters(run) is None
    monkeypatch.setenv("SCALABLE_STORE_URL", "sqlite:///moved/results.db")
    assert dead_letters(run) == 0


def test_dead_letters_are_stored_from_the_page_once_their_cause_is_gone(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "OVER_EVERY_S", 0.05)
    rows, url = stored(project, 0.5), f"sqlite:///{project}/kept/results.db"
    run = a_run_of(project)
    refuse(url, lowest=1, highest=1)
    with open_store(url) as store:
        dead = store.put(rows[6:]).dead
    assert dead == 3
    with served(project / ".scalable/runs") as guard, Client(guard).stream(run.run_id) as stream:
        client, asked = Client(guard), {"action": "replay", "run": run.run_id}
        while stream.until("trouble")["dead_letters"] != dead:
            pass
        assert client.post(asked).json["text"].startswith("0 dead letters stored; 3 dead letters refused again: ")
        allow(url)
        assert client.post(asked).json == {"ok": True, "text": "3 dead letters stored"}
        while stream.until("trouble")["dead_letters"] != 0:
            pass
    with open_store(url) as store:
        assert store.keys() == {row.run_key for row in rows}


def test_what_code_says_of_its_end_is_shown_without_secrets(project: Path) -> None:
    run = a_run_of(project)
    stored(project)
    (project / "models.py").write_text("import sys\n\nsys.exit('no licence: password=hunter2secret')\n")
    with served(project / ".scalable/runs") as guard:
        error = Client(guard).get(f"/api/results?run={run.run_id}&sweep=trial").json["error"]
    assert "no licence" in error and "hunter2" not in error


def test_closing_the_console_ends_the_process_that_judges(project: Path) -> None:
    run, _ = a_run_of(project), stored(project)
    (project / "models.py").write_text(
        "import os, pathlib, time\n"
        "there = pathlib.Path(__file__).with_name('pid')\n"
        "there.with_suffix('.part').write_text(str(os.getpid()))\n"
        "there.with_suffix('.part').replace(there)\n"
        "time.sleep(60)\n"
    )
    told: list[Any] = []

    def ask(client: Client) -> None:
        with suppress(HTTPException):  # its connection may be closed before it has its answer
            told.append(client.get(f"/api/results?run={run.run_id}&sweep=trial").json)

    with served(project / ".scalable/runs") as guard:
        asking = [threading.Thread(target=ask, args=(Client(guard),)) for _ in range(2)]
        for each in asking:
            each.start()
        until((project / "pid").exists)
    for each in asking:
        each.join()
    assert not is_there(int((project / "pid").read_text()))
    assert all(answer == {"error": "the console is closed"} for answer in told)


def test_an_incident_comes_with_its_evidence_and_a_log_with_its_last_lines(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    stacks = [{"pid": 7, "thread": "MainThread", "frames": ["wait (locks.py:3)"], "active": True}]
    IncidentFolder(run.path).open(Incident("stuck", run="first", guilty="wait", evidence={"stacks": stacks}))
    run.log("w/1").write_text("".join(f"line {number}\n" for number in range(500)) + "password=hunter2secret\n")
    with served(tmp_path) as guard:
        client = Client(guard)
        found = client.get(f"/api/incident?run={run.run_id}&id=1").json
        assert (found["kind"], found["run"], found["id"]) == ("stuck", "first", 1)
        assert "wait (locks.py:3)" in found["text"] and found["prevent"]
        lines = client.get(f"/api/log?run={run.run_id}&worker=w/1").json["lines"]
        assert len(lines) == 200 and lines[-2] == "line 499" and "hunter2" not in json.dumps(lines)
        assert client.get(f"/api/incident?run={run.run_id}&id=2").status == 404
