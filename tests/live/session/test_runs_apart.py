"""Runs and guarded tasks execute beside their workers: what happens to them happens to nothing else."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import scalable
from scalable import RunKilledError, ScalableClient, ScalableSession, proc
from scalable.observe.incidents import IncidentFolder
from scalable.worker.runner.wire import pack
from tests.helpers.paths import ROOT
from tests.helpers.runner import mischief, work
from tests.helpers.session.builders import Project
from tests.helpers.session.tasks_of import tasks_of
from tests.helpers.waiting import LONG_S, until

BOTH = pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])

CODE = """
    import os, time
    from pathlib import Path
    import scalable

    def where(folder):
        Path(folder, str(os.getpid())).touch()
        return os.getpid()

    def eat_once(folder):
        first = Path(folder, "first")
        if not first.exists():
            first.touch()
            held = []
            while True:
                held.append(bytearray(b"x" * (1 << 20)))
        return "fits"

    def ticks(count):
        for step in range(count):
            scalable.progress(step, count)
            time.sleep(0.05)
        return count

    def fork():
        import threading
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        os.fork()
"""


@BOTH
def test_a_task_of_the_manifest_runs_in_a_process_that_is_kept_for_the_next(project: Project, processes: bool) -> None:
    module = project.module(CODE)
    session = project.session(
        target={"processes": processes}, tasks=tasks_of(module, "where", folder=str(project.folder))
    )
    with session:
        first, second = (session.run_tasks()["where"] for _ in range(2))
        pid = session.driver.cluster.scheduler.workers  # type: ignore[union-attr]
        assert {state.pid for state in pid.values()}.isdisjoint({first})
    assert first == second != os.getpid()
    assert not proc.alive(first)


@BOTH
def test_a_run_that_eats_memory_harms_nothing_and_is_told_with_its_peak(project: Project, processes: bool) -> None:
    session = project.session(
        target={"processes": processes},
        components={"demeter": {"memory": "600MB"}},
        tasks=tasks_of(project.module(CODE), "eat_once", folder=str(project.folder)),
    )
    with session as client:
        with pytest.raises(
            scalable.TaskError, match=r"out of memory and no larger profile exists: [\d.]+ MiB of 600 MB"
        ):
            session.run_tasks()
        assert client.submit(work.give_back, 3).result(timeout=LONG_S) == 3
    assert not project.journal("worker-lost")
    [incident] = IncidentFolder(session.folder.path).all()
    assert incident.kind == "out of memory"
    assert incident.evidence["peak"] > 300 * 2**20


@pytest.mark.journey
def test_a_run_that_ran_out_of_memory_is_run_again_on_the_larger_component(project: Project) -> None:
    task = {
        "component": "small",
        "run": f"{project.module(CODE)}:eat_once",
        "arguments": {"folder": str(project.folder)},
    }
    session = project.session(
        target={"processes": True, "max_workers": 2},
        components={"small": {"memory": "500MB", "larger": "large"}, "large": {"memory": "2GB"}},
        tasks={"eat": task},
        policies={"retry": {"delay": "0.1s"}},
    )
    with session:
        assert session.run_tasks() == {"eat": "fits"}
    assert [record["tag"] for record in project.journal("attempt-started")] == ["small", "large"]
    [alert] = [record for record in project.journal("alert") if record["alert"] == "retry-used"]
    assert "ask for" in alert["text"]


def test_a_fork_with_threads_is_refused_and_recorded_with_its_place(project: Project) -> None:
    module = project.module(CODE)
    session = project.session(tasks=tasks_of(module, "fork"))
    with session, pytest.raises(scalable.TaskError, match=rf"{module}.py:\d+"):
        session.run_tasks()
    [fork] = project.journal("fork")
    assert fork["policy"] == "deny"
    [incident] = IncidentFolder(session.folder.path).all()
    assert (incident.kind, incident.run) == ("fork refused", "fork")


class TestGuardedTasks:
    """One session for all of these, of each kind; none of them harms it."""

    @pytest.fixture(scope="class", params=[False, True], ids=["threads", "processes"])
    @classmethod
    def session(
        cls, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[ScalableSession]:
        project = Project(tmp_path_factory.mktemp("guarded"))
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(project.folder)
            session = project.session(
                target={"processes": request.param},
                components={"demeter": {"memory": "1GB"}},
                tasks=tasks_of(project.module(CODE), "ticks", count=20),
            )
            with session:
                yield session
            assert not project.journal("worker-lost")
            assert len(project.journal("worker-joined")) == 1

    @pytest.fixture
    def client(self, session: ScalableSession) -> ScalableClient:
        assert session.client is not None
        return session.client

    def test_run_in_a_process_of_their_own_and_bring_results_and_errors_back(self, client: ScalableClient) -> None:
        pid, session, threads = client.submit(work.name_process, tag="demeter", guarded=True).result(timeout=LONG_S)
        assert pid == session != os.getpid()
        assert threads == 1
        assert client.gather(client.map(work.give_back, range(5), guarded=True)) == list(range(5))
        with pytest.raises(ConnectionRefusedError, match="nobody listens") as error:
            client.submit(work.fail_to_connect, guarded=True).result(timeout=LONG_S)
        assert "work.py" in error.value.__notes__[0]

    def test_that_crash_or_eat_memory_are_told(self, session: ScalableSession, client: ScalableClient) -> None:
        before = len(IncidentFolder(session.folder.path).all())
        with pytest.raises(RunKilledError, match="crashed: crashed with SIGSEGV"):
            client.submit(work.segfault, guarded=True).result(timeout=LONG_S)
        with pytest.raises(RunKilledError, match="out of memory"):
            client.submit(work.eat, 3000, guarded=True, tag="demeter").result(timeout=LONG_S)
        kinds = [incident.kind for incident in IncidentFolder(session.folder.path).all()[before:]]
        assert kinds == ["crashed", "out of memory"]

    def test_are_other_tasks_than_the_same_call_without_a_guard(self, client: ScalableClient) -> None:
        plain = client.submit(work.name_process).result(timeout=LONG_S)
        guarded = client.submit(work.name_process, guarded=True).result(timeout=LONG_S)
        again = client.submit(work.name_process, guarded=True).result(timeout=LONG_S)
        assert plain[0] in client.run(os.getpid).values() and plain[0] != guarded[0]
        assert again == guarded

    def test_one_whose_future_is_cancelled_is_killed(self, client: ScalableClient, tmp_path: Path) -> None:
        future = client.submit(mischief.note_and_wait, str(tmp_path), "never", guarded=True)
        assert until(lambda: (tmp_path / "never.calls").exists())
        waiting = client.submit(mischief.note_and_wait, str(tmp_path), "behind", guarded=True)
        future.cancel()
        (tmp_path / "behind").touch()
        assert waiting.result(timeout=LONG_S) == "behind"  # there is one slot
        assert (tmp_path / "behind.calls").read_text() == "x"

    def test_one_that_was_let_go_and_is_wanted_again_has_its_result(
        self, client: ScalableClient, tmp_path: Path
    ) -> None:
        future = client.submit(mischief.note_and_wait, str(tmp_path), "again", guarded=True, key="same")
        assert until(lambda: (tmp_path / "again.calls").exists())
        future.release()
        (tmp_path / "again").touch()
        future = client.submit(mischief.note_and_wait, str(tmp_path), "again", guarded=True, key="same")
        assert future.result(timeout=LONG_S) == "again"

    def test_leaving_and_interrupting_end_neither_worker_nor_session(self, client: ScalableClient) -> None:
        for error in (SystemExit(3), KeyboardInterrupt(), GeneratorExit()):
            with pytest.raises(RunKilledError, match=f"raised: {type(error).__name__}"):
                client.submit(mischief.raise_this, error, guarded=True, pure=False).result(timeout=LONG_S)
        assert client.submit(work.give_back, 1, guarded=True).result(timeout=LONG_S) == 1

    def test_errors_that_cannot_travel_are_told_in_words(self, client: ScalableClient) -> None:
        with pytest.raises(RunKilledError, match=r"raised: tests.helpers.runner.mischief.LocalError: 1 and 2"):
            client.submit(mischief.fail_locally, guarded=True).result(timeout=LONG_S)
        with pytest.raises(RunKilledError, match="ExceptionGroup: several"):
            client.submit(mischief.fail_in_a_group, guarded=True).result(timeout=LONG_S)
        with pytest.raises(FileNotFoundError):
            client.submit(mischief.fail_with_file_name, guarded=True).result(timeout=LONG_S)

    def test_large_arguments_and_results_travel(self, client: ScalableClient) -> None:
        size = 100 * 2**20
        value = client.submit(mischief.bytes_of, size, guarded=True)
        assert client.submit(mischief.length, value, guarded=True).result(timeout=LONG_S) == size

    def test_they_and_tasks_of_the_manifest_share_a_worker(
        self, session: ScalableSession, client: ScalableClient
    ) -> None:
        futures = [client.submit(work.give_back, number, guarded=True) for number in range(20)]
        assert session.run_tasks() == {"ticks": 20}
        assert client.gather(futures) == list(range(20))


def test_guarded_tasks_that_hang_are_killed(project: Project) -> None:
    session = project.session(policies={"stuck": {"after": "1s"}})
    with session as client, pytest.raises(RunKilledError, match="stuck: no sign of life"):
        client.submit(work.stamp_then, "sleep", guarded=True).result(timeout=LONG_S)
    [incident] = IncidentFolder(session.folder.path).all()
    assert "stamp_then" in incident.guilty


@pytest.mark.journey
def test_nothing_is_left_when_the_driver_is_killed(project: Project, tmp_path: Path) -> None:
    """Not even a process that left its parents and their session."""
    note = tmp_path / "daemon"
    project.write()
    script = project.script(f"""
        import sys
        import scalable
        sys.path.append({str(ROOT)!r})
        from tests.helpers.runner import work
        client = scalable.ScalableSession.from_yaml().start()
        client.submit(work.daemon_and_hang, {str(note)!r}, guarded=True).result()
    """)
    assert until(lambda: (note.exists() and note.read_text()) or script.poll() is not None)
    assert script.poll() is None, script.communicate()
    daemon = int(note.read_text())
    os.kill(script.pid, signal.SIGKILL)
    script.communicate()
    assert until(lambda: not proc.alive(daemon), LONG_S)


def test_a_guarded_task_whose_worker_is_retired_runs_on_another(project: Project, tmp_path: Path) -> None:
    with project.session(target={"processes": True, "max_workers": 2}) as client:
        futures = [client.submit(mischief.note_and_wait, str(tmp_path), name, guarded=True) for name in ("one", "two")]
        assert until(lambda: len(list(tmp_path.glob("*.calls"))) == 2)
        workers = client.processing()
        address = next(address for address, tasks in workers.items() if tasks)
        client.retire_workers([address])
        for name in ("one", "two"):
            (tmp_path / name).touch()
        assert client.gather(futures) == ["one", "two"]


def test_a_session_may_be_started_inside_of_one(project: Project, tmp_path: Path) -> None:
    with project.session(target={"processes": True}) as client:
        assert client.submit(mischief.nested_session, str(tmp_path), guarded=True).result(timeout=LONG_S) == 3


@BOTH
def test_what_no_message_can_hold_harms_no_worker(project: Project, processes: bool) -> None:
    """A name that is no text, a number that is too large."""
    module = project.module("from tests.helpers.runner.mischief import fail_with_file_name, report_far")
    tasks = tasks_of(module, "report_far", step=10**30) | tasks_of(module, "fail_with_file_name")
    session = project.session(target={"processes": processes}, tasks=tasks, policies={"stuck": {"after": "2s"}})
    with session, pytest.raises(scalable.TaskError, match=r"1 of 2 tasks .*\n.*FileNotFoundError"):
        session.run_tasks()
    assert not project.journal("worker-lost")


def test_a_guarded_task_that_had_not_begun_when_its_worker_had_notice_runs_on_another(
    project: Project, tmp_path: Path
) -> None:
    with project.session(target={"processes": True, "max_workers": 2}) as client:
        pid = client.submit(os.getpid).result(timeout=LONG_S)
        driver_side = client.scheduler_info()["workers"]
        [(address, _)] = [(where, facts) for where, facts in driver_side.items() if client.run(os.getpid)[where] == pid]
        here: dict[str, Any] = {"guarded": True, "workers": [address], "allow_other_workers": True, "pure": False}
        client.run(take_slots, str(tmp_path), workers=[address])
        future = client.submit(mischief.note_and_wait, str(tmp_path), "late", **here)
        assert until(lambda: client.run(waiting_here, workers=[address])[address] == 1)
        os.kill(pid, signal.SIGTERM)
        (tmp_path / "late").touch()
        assert until(lambda: (tmp_path / "late.calls").exists())
        (tmp_path / "slot").touch()
        assert future.result(timeout=LONG_S) == "late"


def take_slots(folder: str, dask_worker: Any) -> None:
    """As runs of the engine do on a worker that serves both."""
    dask_worker.plugins["scalable-runners"].give("slot", pack((work.wait_for, (f"{folder}/slot",), {})))


def waiting_here(dask_worker: Any) -> int:
    return len(dask_worker.plugins["scalable-runners"].supervisor.waiting)
