"""Opening and closing: once, twice, at once, from anywhere, in any mood, and nothing stays behind."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from pathlib import Path

import psutil
import pytest
from distributed import CancelledError

from scalable import ScalableSession, proc
from scalable.errors import UsageError
from scalable.observe.liveness import state_of
from scalable.observe.view import RunView
from scalable.testing.providers import footprint
from tests.helpers.session.builders import Project, here
from tests.helpers.waiting import LONG_S, until


def test_closing_from_another_thread_while_tasks_run_ends_all(project: Project) -> None:
    before = footprint()
    session = project.session(target={"processes": True})
    client = session.start()
    future = client.submit(time.sleep, 600, tag="demeter")
    assert until(future.client.processing)
    closer = threading.Thread(target=session.close)
    closer.start()
    with pytest.raises((CancelledError, UsageError)):
        future.result(timeout=LONG_S)
    closer.join(timeout=LONG_S)
    assert not closer.is_alive()
    assert project.workers() == []
    assert until(lambda: not footprint() - before), footprint() - before


def test_the_cluster_or_the_client_may_be_closed_first(project: Project) -> None:
    before = footprint()
    session = project.session()
    client = session.start()
    assert session.cluster is not None
    session.cluster.backend.close()
    client.close()
    session.close()
    assert project.ended() == ("ok", "")
    assert until(lambda: not footprint() - before), footprint() - before


def test_children_of_tasks_do_not_outlive_the_session(project: Project) -> None:
    def leave_children(folder: Path) -> None:
        """One that was forked, and one in a session of its own."""
        if os.fork() == 0:
            (folder / "forked").write_text(str(os.getpid()))
            time.sleep(600)
            os._exit(0)
        if os.fork() == 0:
            os.setsid()
            (folder / "apart").write_text(str(os.getpid()))
            time.sleep(600)
            os._exit(0)

    with project.session(target={"processes": True}) as client:
        client.submit(leave_children, project.folder, tag="demeter").result()
        notes = [project.folder / "forked", project.folder / "apart"]
        assert until(lambda: all(note.exists() and note.read_text() for note in notes))
        children = [int(note.read_text()) for note in notes]
        assert all(proc.alive(child) for child in children)
    assert not any(proc.alive(child) for child in children)


def test_two_sessions_at_once_know_nothing_of_each_other(project: Project) -> None:
    other = Project(project.folder / "other")
    other.folder.mkdir()
    one = project.session(components={"gcam": {}})
    two = other.session(target={"max_workers": 2})
    with one as first, two as second:
        assert (first.worker_count(), second.worker_count()) == (1, 2)
        with pytest.raises(UsageError, match="demeter"):
            second.submit(here, tag="gcam")
        one.close()
        assert second.submit(here, tag="demeter").result().startswith("demeter-")
    states = [state_of(RunView.of(each.journal())).value for each in (project, other)]
    assert states == ["ok", "ok"]


def test_a_session_works_where_an_event_loop_runs_already(project: Project) -> None:
    """As in a notebook."""
    code = project.module("def task(): return 5")
    session = project.session(tasks={"five": {"component": "demeter", "run": f"{code}:task"}})

    async def notebook() -> tuple[str, dict[str, int]]:
        client = session.start()
        found = client.submit(here, tag="demeter").result(), session.run_tasks()
        session.close()
        return found

    assert asyncio.run(notebook()) == ("demeter-0", {"five": 5})
    assert project.ended() == ("ok", "")


def test_names_may_be_in_any_language_and_folders_may_have_spaces(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project.folder / "wasser und wärme"
    folder.mkdir()
    monkeypatch.chdir(folder)
    far = Project(folder)
    components = {"größe 1/2": {"tags": ["水"]}, "-x=1": {}}
    session = far.session(
        project={"name": "Überlauf 水"}, components=components, target={"processes": True, "max_workers": 2}
    )
    with session as client:
        assert client.submit(here, tag="größe 1/2").result() == "größe 1/2-0"
        assert client.submit(here, tag="水").result() == "größe 1/2-0"
        assert client.submit(here, tag="-x=1").result() == "-x=1-1"
    assert far.journal("run-started")[0]["project"] == "Überlauf 水"
    assert far.ended() == ("ok", "")


def test_a_dashboard_can_be_had(project: Project) -> None:
    with project.session(target={"dashboard_address": "127.0.0.1:0"}) as client:
        assert client.submit(here, tag="demeter").result()


@pytest.mark.parametrize(("processes", "rounds"), [(False, 10), (True, 3)])
def test_opening_and_closing_again_and_again_leaves_nothing_behind(
    project: Project, processes: bool, rounds: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "distributed")
    code = project.module("def task(): return 1")
    tasks = {name: {"component": "demeter", "run": f"{code}:task"} for name in "ab"}
    session = project.session(target={"processes": processes}, tasks=tasks)

    def round_trip() -> None:
        with session as client:
            assert client.submit(here, tag="demeter").result()
            assert session.run_tasks() == {"a": 1, "b": 1}

    round_trip()  # what Dask makes once and keeps comes into being
    before, files = footprint(), psutil.Process().num_fds()
    for _ in range(rounds - 1):
        round_trip()
    assert until(lambda: not footprint() - before), footprint() - before
    assert until(lambda: psutil.Process().num_fds() <= files + 2), psutil.Process().open_files()
    assert session not in ScalableSession._open
