"""Faults of runners in live sessions: what their guarded work makes of it, and that nobody else notices."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scalable import proc
from scalable.chaos import Processes, Scene, Wish, workloads
from scalable.quantities import Memory
from scalable.session.session import ScalableSession
from scalable.worker.guarded import RunKilledError
from tests.helpers.session.builders import Project
from tests.helpers.waiting import LONG_S, until


@pytest.fixture
def session(project: Project) -> Iterator[ScalableSession]:
    """Workers as threads of this process; their runners are its children."""
    made = project.session(target={"max_workers": 1})
    with made:
        assert until(lambda: project.journal("worker-joined"))
        yield made


def guarded(session: ScalableSession, function: Any, *arguments: Any, **how: Any) -> Any:
    assert session.client is not None
    return session.client.submit(function, *arguments, tag="demeter", guarded=True, pure=False, **how)


def begun(note: Path) -> bool:
    return until(note.exists)


def end_when_told(note: str) -> str:
    with Path(note).open("a", encoding="ascii") as file:
        file.write("begun\n")
    until(Path(f"{note}-go").exists)
    return "done"


def grow_when_told(note: str, size: int) -> int:
    Path(note).touch()
    until(Path(f"{note}-go").exists)
    return len(bytearray(size))


def test_work_whose_runner_is_killed_is_done_by_another_if_it_may_be(session: ScalableSession, tmp_path: Path) -> None:
    note = tmp_path / "note"
    future = guarded(session, end_when_told, str(note), retries=1)
    assert begun(note)
    with Scene(session.folder).prepare("kill-runner").make():
        Path(f"{note}-go").touch()
        assert future.result(LONG_S) == "done"
    assert note.read_text(encoding="ascii").count("begun") == 2


def test_work_whose_runner_is_killed_says_so_otherwise(session: ScalableSession, tmp_path: Path) -> None:
    future = guarded(session, end_when_told, str(tmp_path / "note"))
    assert begun(tmp_path / "note")
    with Scene(session.folder).prepare("kill-runner").make(), pytest.raises(RunKilledError, match="SIGKILL, not by us"):
        future.result(LONG_S)


def test_a_runner_that_stands_still_for_a_moment_goes_on(session: ScalableSession, tmp_path: Path) -> None:
    note = tmp_path / "note"
    future = guarded(session, end_when_told, str(note))
    assert begun(note)
    with Scene(session.folder).prepare("stop-runner").make():
        Path(f"{note}-go").touch()
        time.sleep(0.5)
        assert not future.done()
    assert future.result(LONG_S) == "done"
    assert note.read_text(encoding="ascii").count("begun") == 1


def test_a_runner_without_memory_refuses_it_to_its_work(session: ScalableSession, tmp_path: Path) -> None:
    note = tmp_path / "note"
    future = guarded(session, grow_when_told, str(note), 200 << 20)
    assert begun(note)
    with Scene(session.folder).prepare("fill-memory", Wish(leave=Memory.parse("10MiB"))).make():
        Path(f"{note}-go").touch()
        with pytest.raises(MemoryError):
            future.result(LONG_S)
    assert guarded(session, grow_when_told, str(note), 200 << 20).result(LONG_S) == 200 << 20


@pytest.mark.parametrize("how", ["segfault", "abort", "exit"])
def test_crashing_work_harms_nobody_else(session: ScalableSession, how: str) -> None:
    with pytest.raises(RunKilledError, match="crashed"):
        guarded(session, workloads.crash, how).result(LONG_S)
    assert guarded(session, abs, -1).result(LONG_S) == 1


def test_a_daemon_that_work_leaves_behind_is_ended(session: ScalableSession) -> None:
    daemon = guarded(session, workloads.leave_daemon).result(LONG_S)
    assert until(lambda: not proc.alive(daemon))


def test_runners_of_workers_that_are_threads_are_found_below_the_driver(session: ScalableSession) -> None:
    assert guarded(session, abs, -1).result(LONG_S) == 1
    (found,) = Processes(session.folder).runners()
    assert (found.kind, found.worker) == ("runner", "demeter-0")
