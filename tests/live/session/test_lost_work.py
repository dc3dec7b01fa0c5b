"""Runs whose worker is killed, that hang, or that only look as if they did."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from scalable.errors import UsageError
from scalable.observe.incidents import IncidentFolder
from scalable.session.driver.tasks import TaskError
from tests.helpers.session.builders import Project
from tests.helpers.session.tasks_of import tasks_of
from tests.helpers.waiting import LONG_S, until

CODE = """
    import os, subprocess, sys, time
    from pathlib import Path

    def first_try_waits(note):
        again = Path(note).exists()
        Path(note).write_text(f"{os.getppid()} {os.getpid()}")
        if not again:
            time.sleep(600)
        return os.getpid()

    def busy(seconds=6):
        '''Works all the time and says nothing.'''
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass
        return "done"

    def busy_child(seconds=6):
        '''Waits for a program that works all the time.'''
        code = f"import time; end = time.monotonic() + {seconds}\\nwhile time.monotonic() < end: pass"
        subprocess.run([sys.executable, "-c", code], check=True)
        return "done"

    def asleep():
        time.sleep(600)
"""


@pytest.mark.journey
def test_a_run_whose_worker_is_killed_is_run_again_on_another(project: Project) -> None:
    note = project.folder / "pid"
    session = project.session(
        target={"processes": True},
        tasks=tasks_of(project.module(CODE), "first_try_waits", note=str(note)),
        policies={"retry": {"times": 1, "delay": "0.1s"}},
    )

    def kill() -> None:
        if until(lambda: note.exists() and note.read_text()):
            os.kill(int(note.read_text().split()[0]), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with session:
        result = session.run_tasks()
    killer.join()
    [lost] = project.journal("worker-lost")
    first, second = project.journal("attempt-started")
    assert (lost["worker"], first["worker"], second["worker"]) == ("demeter-0", "demeter-0", "demeter-1")
    assert [record["outcome"] for record in project.journal("attempt-ended")] == ["worker lost", "finished"]
    assert [(record["run"], record["cause"]) for record in project.journal("retry")] == [
        ("first_try_waits", "worker lost")
    ]
    assert result["first_try_waits"] == int(note.read_text().split()[1])
    [incident] = IncidentFolder(session.folder.path).all()
    assert (incident.kind, incident.worker, incident.run) == ("worker lost", "demeter-0", "first_try_waits")
    with session.open_store() as store:
        [row] = store.incidents()
    assert (row.kind, row.run, row.summary["outcome"]) == ("worker lost", "first_try_waits", incident.outcome)


@pytest.mark.journey
def test_what_hangs_is_killed_and_what_works_without_a_word_is_not(project: Project) -> None:
    session = project.session(
        target={"processes": True, "max_workers": 3},
        tasks=tasks_of(project.module(CODE), "busy", "busy_child", "asleep"),
        policies={"retry": {"times": 0}, "stuck": {"after": "4s"}},
    )
    with session:
        with pytest.raises(TaskError) as error:
            session.run_tasks()
        assert "1 of 3 tasks did not finish" in str(error.value)
        assert "asleep: failed: stuck" in str(error.value)
        assert session.client is not None
        assert session.client.worker_count() == 3
    states = {record["run"]: record["state"] for record in project.journal("run-ended")}
    assert states == {"busy": "finished", "busy_child": "finished", "asleep": "failed"}
    assert [one["alert"] for one in project.journal("alert") if "state" not in one] == ["stuck", "run-failed"]
    [killed] = [record for record in project.journal("attempt-ended") if record["run"] == "asleep"]
    assert killed["outcome"] == "stuck"
    assert not project.journal("worker-lost")
    assert project.workers() == []


def test_whoever_waits_for_tasks_is_told_when_the_session_is_closed(project: Project) -> None:
    session = project.session(target={"processes": True}, tasks=tasks_of(project.module(CODE), "asleep"))
    session.start()
    told: list[BaseException] = []

    def wait() -> None:
        try:
            session.run_tasks()
        except (TaskError, UsageError) as error:
            told.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert until(lambda: project.journal("attempt-started"))
    session.close()
    waiting.join(timeout=LONG_S)
    assert not waiting.is_alive()
    assert "the session was closed" in str(told[0])
    assert project.ended() == ("ok", "")
    assert project.workers() == []
