"""Two things at once: every piece of work still ends once, is run once, and nothing is left of what ran it."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import random
import select
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scalable import proc
from scalable.worker.runner import ends, supervisor
from scalable.worker.runner.evidence import Evidence
from scalable.worker.runner.limits import MemoryGroup
from scalable.worker.runner.process import Settings
from tests.helpers.runner import mischief, work
from tests.helpers.runner.desk import Desk, on_a_desk

MIB = 2**20


def runners_pid(desk: Desk) -> int:
    [runner] = desk.supervisor.runners
    assert runner.pid is not None
    return runner.pid


async def short_work(desk: Desk) -> None:
    """Until a runner was quick, so that the next works are sent ahead: on a loaded machine the first may not be."""
    await desk.value(work.give_back, 0)
    while desk.supervisor.runners[0].pace >= supervisor.SHORT_S:
        await desk.value(work.give_back, 0)


@on_a_desk(slots=4)
async def test_every_one_of_500_works_ends_once_while_runners_are_killed_at_random(desk: Desk) -> None:
    dice = random.Random(7)
    for number in range(500):
        desk.give(str(number), work.tick, 1, dice.choice((0.0, 0.0, 0.03)))
    kills = 0
    while len(desk.ends) < 500:
        await asyncio.sleep(dice.uniform(0.01, 0.1))
        if desk.supervisor.runners and kills < 40:
            runner = dice.choice(desk.supervisor.runners)
            if not runner.ready and kills >= 5:  # where every start is killed, work is given up
                continue
            if runner.pid is not None and runner.process is not None and runner.process.returncode is None:
                os.kill(runner.pid, signal.SIGKILL)
                kills += 1
    causes = {end.cause for end in desk.ends.values()}
    assert causes <= {ends.FINISHED, ends.KILLED}
    assert sum(1 for end in desk.ends.values() if end.cause) <= kills
    assert not desk.supervisor.works
    assert not desk.supervisor.waiting


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_runner_that_was_stopped_or_killed_while_idle_does_not_hold_or_lose_the_next_work(number: int) -> None:
    @on_a_desk()
    async def check(desk: Desk) -> None:
        await desk.value(work.give_back, 1)
        os.kill(runners_pid(desk), number)
        assert await desk.value(work.give_back, 2) == 2  # given before its death could be noticed

    check()


@on_a_desk()
async def test_work_that_was_sent_ahead_is_not_lost_when_its_runner_ends_before_it(desk: Desk, tmp_path: Path) -> None:
    await short_work(desk)
    desk.give("running", mischief.note_and_wait, str(tmp_path), "running")
    desk.give("ahead", mischief.note_and_wait, str(tmp_path), "ahead")
    (tmp_path / "ahead").touch()
    os.kill(await desk.began("running"), signal.SIGKILL)
    assert (await desk.end_of("running")).cause == ends.KILLED
    assert (await desk.end_of("ahead")).cause == ends.FINISHED
    assert (tmp_path / "ahead.calls").read_text() == "x"


@on_a_desk()
async def test_work_that_answers_while_it_is_about_to_be_killed_has_finished_and_the_next_is_not_killed_for_it(
    desk: Desk, tmp_path: Path
) -> None:
    await short_work(desk)
    desk.give("first", mischief.note_and_wait, str(tmp_path), "first")
    desk.give("next", mischief.note_and_wait, str(tmp_path), "next")
    await desk.began("first")
    runner = desk.supervisor.works["first"].runner
    assert runner is not None
    assert len(runner.sent) == 2
    (tmp_path / "first").touch()
    (tmp_path / "next").touch()
    assert runner.line is not None
    while not select.select([runner.line], [], [], 0)[0]:  # its answer has come but was not read
        pass
    desk.supervisor.kill("first", ends.STOPPED, "too late, or just in time")
    assert (await desk.end_of("next")).cause == ends.FINISHED
    assert desk.ends["first"].cause in (ends.FINISHED, ends.STOPPED)
    assert (tmp_path / "next.calls").read_text() in ("x", "xx")


@on_a_desk()
async def test_work_that_finishes_while_evidence_is_taken_has_finished_and_what_waits_behind_it_runs_once(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(pid: int, **_: Any) -> Evidence:
        (tmp_path / "first").touch()
        await desk.end_of("first")
        return Evidence(pid, 0.0)

    monkeypatch.setattr(supervisor, "collect", slow)
    await desk.value(work.give_back, 0)
    desk.give("first", mischief.note_and_wait, str(tmp_path), "first")
    desk.give("next", mischief.note_and_wait, str(tmp_path), "next")
    pid = await desk.began("first")
    desk.supervisor.kill("first", ends.STUCK, "seems stuck")
    assert (await desk.end_of("first")).cause == ends.FINISHED
    (tmp_path / "next").touch()
    assert (await desk.end_of("next")).cause == ends.FINISHED
    assert (tmp_path / "next.calls").read_text() == "x"
    assert runners_pid(desk) == pid


@on_a_desk()
async def test_a_runner_that_dies_while_evidence_is_taken_ends_its_work_once(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fatal(pid: int, **_: Any) -> Evidence:
        os.kill(pid, signal.SIGKILL)
        await desk.until(lambda: not proc.alive(pid), "its death")
        return Evidence(pid, 0.0)

    monkeypatch.setattr(supervisor, "collect", fatal)
    desk.give("first", work.wait_for, str(tmp_path / "never"))
    await desk.began("first")
    desk.supervisor.kill("first", ends.STUCK, "seems stuck")
    desk.supervisor.kill("first", ends.STUCK, "said twice")
    assert (await desk.end_of("first")).cause == ends.STUCK
    assert await desk.value(work.give_back, 1) == 1


@on_a_desk()
async def test_work_sent_ahead_can_be_killed_while_its_runner_is_ended_for_another(desk: Desk, tmp_path: Path) -> None:
    await desk.value(work.give_back, 0)
    desk.give("first", work.wait_for, str(tmp_path / "never"))
    desk.give("ahead", mischief.note_and_wait, str(tmp_path), "ahead")
    await desk.began("first")
    desk.supervisor.kill("first", ends.STOPPED, "not wanted")
    await asyncio.sleep(0)
    desk.supervisor.kill("ahead", ends.STOPPED, "nor this one")
    assert (await desk.end_of("ahead")).cause == ends.STOPPED
    assert (await desk.end_of("first")).cause == ends.STOPPED
    assert not (tmp_path / "ahead.calls").exists()


@on_a_desk()
async def test_killing_what_has_ended_and_what_was_never_there_does_nothing(desk: Desk) -> None:
    end = await desk.run(work.give_back, 1)
    desk.supervisor.kill(end.key, ends.STOPPED)
    desk.supervisor.kill("never", ends.STUCK, silent_for=1.0)
    assert not desk.supervisor.take_back("never")
    assert await desk.value(work.give_back, 2) == 2


@on_a_desk(slots=2)
async def test_closing_is_safe_at_any_moment_and_twice(desk: Desk, tmp_path: Path) -> None:
    desk.give("starting", work.give_back, 1)
    await asyncio.sleep(0)  # its runner is being started
    await asyncio.gather(desk.supervisor.close(), desk.supervisor.close())
    await desk.supervisor.close()
    assert not desk.ends
    desk.give("late", work.give_back, 1)
    assert (await desk.end_of("late")).cause == ends.PREEMPTED


@pytest.mark.parametrize("evidence", [True, False], ids=["evidence", "kill"])
def test_closing_while_work_is_looked_at_or_killed_leaves_nothing(evidence: bool, tmp_path: Path) -> None:
    @on_a_desk()
    async def check(desk: Desk) -> None:
        desk.give("first", work.wait_for, str(tmp_path / "never"))
        pid = await desk.began("first")
        desk.supervisor.kill("first", ends.STUCK if evidence else ends.STOPPED, "in the middle")
        for _ in range(3):
            await asyncio.sleep(0)
        await desk.supervisor.close()
        assert not proc.alive(pid)
        assert len(asyncio.all_tasks()) <= 2  # this one, and the one that waits for it

    check()


@on_a_desk(memory=120 * MIB, apart=True)
async def test_closing_while_an_outgrown_runner_is_let_go_leaves_nothing(desk: Desk) -> None:
    desk.give("large", work.eat, 40)
    pid = await desk.began("large")
    await desk.end_of("large")
    await desk.supervisor.close()
    assert not proc.alive(pid)
    assert len(asyncio.all_tasks()) <= 2


@on_a_desk(memory=250 * MIB, apart=True)
async def test_short_works_that_leak_are_moved_to_a_fresh_runner_in_time_and_none_is_killed(desk: Desk) -> None:
    for number in range(300):
        desk.give(str(number), mischief.leak, 1)
    await desk.until(lambda: len(desk.ends) == 300, "all")
    assert {end.cause for end in desk.ends.values()} == {ends.FINISHED}
    assert desk.order == [str(number) for number in range(300)]


@on_a_desk()
async def test_what_is_given_after_notice_is_given_back(desk: Desk) -> None:
    await desk.supervisor.leave(0.0)
    assert (await desk.run(work.give_back, 1)).cause == ends.PREEMPTED


@on_a_desk()
async def test_what_cannot_be_started_ends_and_a_passing_shortage_is_waited_for(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "START_AGAIN_S", 0.01)
    popen = subprocess.Popen
    left = [2]

    def short(*args: Any, **kw: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise OSError(errno.EAGAIN, "no more processes")
        return popen(*args, **kw)

    monkeypatch.setattr(subprocess, "Popen", short)
    assert await desk.value(work.give_back, 1) == 1
    os.kill(runners_pid(desk), signal.SIGKILL)
    await desk.until(lambda: not desk.supervisor.runners, "its end")
    left[0] = 10**6
    end = await desk.run(work.give_back, 1)
    assert end.cause == ends.CANNOT_START
    assert "no more processes" in end.message


@pytest.mark.parametrize("call", ["memfd_create", "pidfd_open"])
def test_a_machine_that_lacks_a_call_is_served_or_told_of(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """memfd_create came with Linux 3.17, pidfd_open with 5.3."""

    def missing(*_: Any) -> int:
        raise OSError(errno.ENOSYS, "not implemented")

    @on_a_desk()
    async def check(desk: Desk) -> None:
        monkeypatch.setattr(os, call, missing)
        monkeypatch.setattr(supervisor, "START_AGAIN_S", 0.01)
        if call == "memfd_create":
            assert (await desk.run(work.give_back, 1)).cause == ends.CANNOT_START
            return
        assert await desk.value(work.give_back, 1) == 1
        assert (await desk.run(work.segfault)).cause == ends.CRASHED
        assert await desk.value(work.give_back, 2) == 2

    check()


@on_a_desk()
async def test_a_runner_is_killed_although_nothing_of_it_can_be_seen(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the worker has no file left to open; or when looking for what is to end fails."""

    def nothing(*_: Any) -> int:
        return 0

    def broken(*_: Any) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    for ending in (nothing, broken):
        monkeypatch.setattr(proc, "end_tree", ending)
        desk.give(ending.__name__, work.wait_for, str(tmp_path / "never"))
        pid = await desk.began(ending.__name__)
        desk.supervisor.kill(ending.__name__, ends.STOPPED, "not wanted")
        assert (await desk.end_of(ending.__name__)).cause == ends.STOPPED
        assert not proc.alive(pid)


@on_a_desk()
async def test_a_worker_whose_folder_was_removed_runs_work(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    monkeypatch.syspath_prepend("")
    (tmp_path / "gone").rmdir()
    assert await desk.value(work.give_back, 1) == 1


@on_a_desk(memory=200 * MIB, apart=True)
async def test_a_limit_that_the_kernel_does_not_take_is_held_by_looking(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryGroup, "add", lambda self, pid: False)
    assert await desk.value(work.give_back, 1) == 1
    assert desk.supervisor.runners[0].group is None
    assert (await desk.run(work.eat, 2000)).cause == ends.OUT_OF_MEMORY


@on_a_desk()
async def test_a_runner_of_old_settings_is_not_given_new_work(desk: Desk, tmp_path: Path) -> None:
    assert await desk.value(work.environment, "HELLO") == {"HELLO": None}
    desk.supervisor.use(Settings(environment={"HELLO": "idle"}))
    assert await desk.value(work.environment, "HELLO") == {"HELLO": "idle"}
    desk.give("busy", work.wait_for, str(tmp_path / "end"))
    pid = await desk.began("busy")
    desk.supervisor.use(Settings(environment={"HELLO": "busy"}))
    desk.give("ahead", work.environment, "HELLO")
    (tmp_path / "end").touch()
    assert (await desk.end_of("busy")).cause == ends.FINISHED
    await desk.end_of("ahead")
    assert b"busy" in desk.ends["ahead"].value
    assert not desk.supervisor.runner_of(None) or runners_pid(desk) != pid


def ended() -> set[int]:
    """Return the children of this process that nobody has waited for."""
    return {pid for pid in proc.children(os.getpid()) if proc.state_of(pid).startswith("ended")}


@on_a_desk()
async def test_files_and_processes_do_not_add_up_over_many_runners(desk: Desk) -> None:
    async def crash(times: int) -> int:
        for _ in range(times):
            await desk.run(work.leave, 1)
        await desk.until(lambda: not desk.supervisor.runners, "the last one's end")
        gc.collect()
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    others = ended()  # of other tests
    before = await crash(3)
    assert await crash(12) <= before
    assert not ended() - others
    assert len(desk.supervisor.tasks) <= 1


@on_a_desk()
async def test_what_threads_note_while_a_large_result_is_sent_does_not_mix_with_it(desk: Desk) -> None:
    assert len(await desk.value(mischief.note_while_it_answers, 32)) == 32 * MIB
    assert [facts["number"] for facts in desk.forks] == list(range(len(desk.forks)))
    assert desk.forks
