"""Whatever the code of a run does to its process, the run ends once, and the next one is not harmed."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scalable import proc
from scalable.observe.files import append_private
from scalable.worker.printing import LogPipe
from scalable.worker.runner import ends
from scalable.worker.runner.supervisor import RAISED_FOR_MEMORY
from tests.helpers.runner import mischief, work
from tests.helpers.runner.desk import Desk, on_a_desk
from tests.helpers.runner.programs import PATIENCE_S
from tests.helpers.waiting import until

HUGE = 100 * 2**20


@on_a_desk()
async def test_code_that_closes_its_connection_is_told_of_and_does_not_wait_for_ever(desk: Desk) -> None:
    for function in (mischief.close_everything_and_wait, mischief.close_everything):
        end = await desk.run(function)
        assert end.cause == ends.CRASHED
        assert "closed the connection" in end.message
    assert await desk.value(work.give_back, 1) == 1


@on_a_desk()
async def test_what_one_work_does_to_its_process_the_next_does_not_suffer(desk: Desk, tmp_path: Path) -> None:
    home = await desk.value(mischief.where)
    assert await desk.value(mischief.move_away, str(tmp_path)) == str(tmp_path)
    assert await desk.value(mischief.where) == home
    for function in (
        mischief.close_streams,
        mischief.replace_streams,
        mischief.change_signals,
        mischief.forget_environment,
        mischief.start_a_thread_for_ever,
        mischief.raise_in_del,
    ):
        await desk.run(function)
        assert await desk.value(mischief.say, "hello") is None
        assert (await desk.run(work.fail_to_connect)).message == "ConnectionRefusedError: nobody listens there"


@on_a_desk()
async def test_the_thread_that_reads_artefacts_in_object_stores_costs_no_runner(desk: Desk) -> None:
    first = await desk.value(mischief.read_from_an_object_store)
    assert await desk.value(mischief.read_from_an_object_store) == first


@on_a_desk()
async def test_a_thread_that_work_left_does_not_deny_a_fork_of_the_next(desk: Desk) -> None:
    left = await desk.value(mischief.leave_a_daemon_thread)
    assert await desk.value(mischief.fork_and_exit, 3) == 3
    assert desk.forks == []
    await desk.until(lambda: not proc.alive(left), "the end of its runner")


@on_a_desk()
async def test_a_spinning_thread_that_work_left_does_not_hide_the_silence_of_the_next(desk: Desk) -> None:
    desk.supervisor.sign_every_s = 0.1
    left = await desk.value(mischief.leave_a_spinning_thread)
    desk.give("silent", mischief.sleep_silently, 600.0)
    assert await desk.began("silent") != left
    await desk.until(lambda: desk.signs and desk.signs[-1].pid != left and desk.signs[-1].idle_s > 0.5, "its silence")


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
@on_a_desk()
async def test_a_native_thread_that_goes_on_computing_ends_with_its_runner(desk: Desk) -> None:
    left = await desk.value(mischief.leave_a_native_thread_spinning)
    assert await desk.value(mischief.sleep_silently, 0.0) != left


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_processes_that_work_left_end_with_its_runner(way: str) -> None:
    @on_a_desk()
    async def check(desk: Desk) -> None:
        left = await desk.value(mischief.leave_a_pool, way)
        assert await desk.value(mischief.sleep_silently, 0.0) != left
        process = await desk.value(work.leave_a_process)
        await desk.until(lambda: not proc.alive(process), "the end of the process")

    check()


@on_a_desk()
async def test_variables_signals_and_timers_that_work_left_are_put_back_in_the_same_runner(desk: Desk) -> None:
    first = await desk.value(mischief.set_variable, "LEFT_BEHIND", "1")
    assert await desk.value(work.environment, "LEFT_BEHIND") == {"LEFT_BEHIND": None}
    assert await desk.value(mischief.leave_an_alarm) == first
    assert await desk.value(mischief.sleep_silently, 0.4) == first
    await desk.value(mischief.change_signals)
    desk.give("stuck", mischief.sleep_silently, 600.0)
    assert await desk.began("stuck") == first
    desk.supervisor.kill("stuck", ends.STUCK)
    end = await desk.end_of("stuck")
    assert end.evidence is not None
    assert "sleep_silently" in end.evidence.faults


@on_a_desk()
async def test_short_work_that_was_sent_ahead_is_not_lost_with_a_runner_that_is_replaced(desk: Desk) -> None:
    await desk.value(work.give_back, 0)
    for number in range(60):
        desk.give(str(number), *((mischief.leave_a_daemon_thread,) if number % 20 == 5 else (work.give_back, number)))
    await desk.until(lambda: len(desk.ends) == 61, "all")
    assert desk.order[1:] == [str(number) for number in range(60)]
    assert {end.cause for end in desk.ends.values()} == {ends.FINISHED}
    assert len({pickle.loads(desk.ends[str(number)].value) for number in (5, 25, 45)}) == 3


@on_a_desk(cpus=2)
async def test_libraries_with_pools_of_their_own_do_not_cost_a_runner_each_time(desk: Desk) -> None:
    for name in ("joblib", "optuna", "polars", "sklearn", "xgboost"):
        pytest.importorskip(name)
    first = await desk.value(mischief.use_libraries)
    assert await desk.value(mischief.use_libraries) == first
    assert await desk.value(mischief.sleep_silently, 0.0) == first


@on_a_desk()
async def test_work_that_a_spoiled_runner_cannot_load_is_given_to_a_fresh_one(desk: Desk) -> None:
    await desk.value(mischief.break_pickle)
    for number in range(20):
        desk.give(str(number), work.give_back, number)
    for number in range(20):
        assert (await desk.end_of(str(number))).cause == ends.FINISHED
    content = pickle.dumps((work.give_back, (), {})).replace(b"tests.helpers.runner.work", b"tests.helpers.runner.gone")
    desk.supervisor.give("gone", content)
    assert (await desk.end_of("gone")).cause == ends.CANNOT_START


@on_a_desk()
async def test_a_crash_is_told_although_the_work_removed_all_temporary_files(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    end = await desk.run(mischief.clean_up_and_crash)
    assert end.cause == ends.CRASHED
    assert "SIGSEGV in string_at" in end.message


@on_a_desk()
async def test_large_arguments_and_results_travel(desk: Desk) -> None:
    assert await desk.value(mischief.length, bytes(HUGE)) == HUGE
    assert len(await desk.value(mischief.bytes_of, HUGE)) == HUGE


def test_much_output_is_no_trouble(tmp_path: Path) -> None:
    with (tmp_path / "log").open("ab") as output:

        @on_a_desk(output=output.fileno())
        async def check(desk: Desk) -> None:
            assert await desk.value(mischief.say_much, 50) == 50

        check()
    assert (tmp_path / "log").stat().st_size >= 50 * 2**20


def test_the_log_of_a_violent_end_is_that_of_its_work_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    pipe = LogPipe(append_private(log))

    @on_a_desk(slots=2, log=log, output=pipe.writing)
    async def check(desk: Desk) -> None:
        await desk.value(mischief.say, "of an earlier work")
        desk.give("beside", mischief.say_and_wait, "of the work beside", str(tmp_path / "end"))
        await desk.began("beside")
        await desk.until(lambda: "beside" in log.read_text(), "what it says")
        for function in (mischief.say_and_crash, mischief.say_and_lack_memory):
            end = await desk.run(function, "its own words")
            assert end.cause in (ends.CRASHED, ends.OUT_OF_MEMORY)
            assert end.evidence is not None
            told = [line.rpartition("] ")[2] for line in end.evidence.log if line.endswith(("words", "work", "beside"))]
            assert told == ["its own words"]
            assert any(line.endswith("Z from a program") for line in end.evidence.log)
        assert (end.raised, end.done) == (True, (RAISED_FOR_MEMORY,))
        (tmp_path / "end").touch()
        await desk.end_of("beside")

    try:
        assert until(lambda: pipe.writer)
        check()
    finally:
        pipe.close()


@on_a_desk()
async def test_a_runner_that_ends_between_two_works_loses_none(desk: Desk) -> None:
    first = await desk.value(mischief.leave_a_thread_that_exits, 3)
    await desk.until(lambda: not proc.alive(first), "its end")
    assert await desk.value(work.give_back, 1) == 1


@pytest.mark.parametrize(
    "nonsense",
    [b"\xff" * 100, (2**60).to_bytes(8) + b"\x03", (3).to_bytes(8) + b"\x03" + b"abc", (1).to_bytes(8) + b"\x04x"],
    ids=["no kind", "too long", "no answer", "no fact"],
)
def test_nonsense_on_the_connection_ends_the_work(nonsense: bytes) -> None:
    @on_a_desk()
    async def check(desk: Desk) -> None:
        end = await desk.run(mischief.talk_nonsense, nonsense)
        assert end.cause == ends.CRASHED
        assert "nonsense" in end.message
        assert await desk.value(work.give_back, 1) == 1

    check()


@on_a_desk()
async def test_a_fork_that_leaves_by_sys_exit_has_its_own_status(desk: Desk) -> None:
    assert await desk.value(mischief.fork_and_exit, 3) == 3


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit(), SystemExit("bye")], ids=repr)
def test_an_error_that_is_no_exception_ends_only_its_work(error: BaseException) -> None:
    @on_a_desk()
    async def check(desk: Desk) -> None:
        end = await desk.run(mischief.raise_this, error)
        assert end.cause == ends.RAISED
        assert type(error).__name__ in end.message
        assert await desk.value(work.give_back, 1) == 1

    check()


@on_a_desk()
async def test_an_error_that_cannot_be_put_together_again_is_told_in_words(desk: Desk) -> None:
    end = await desk.run(mischief.fail_locally)
    assert (end.cause, end.value) == (ends.RAISED, b"")
    assert end.message == "tests.helpers.runner.mischief.LocalError: 1 and 2"
    end = await desk.run(mischief.fail_in_a_group)
    assert (end.cause, end.value) == (ends.RAISED, b"")
    assert "several" in end.message


@on_a_desk()
async def test_texts_that_no_encoding_has_and_numbers_that_no_message_holds_are_made_harmless(desk: Desk) -> None:
    desk.supervisor.sign_every_s = 0.05
    end = await desk.run(mischief.fail_with_file_name)
    assert end.message.encode()
    await desk.run(mischief.report_far, 10**30)
    steps = [sign.step for sign in desk.signs if sign.step is not None]
    assert steps
    assert all(isinstance(step, float) or abs(step) < 2**63 for step in steps)


@on_a_desk()
async def test_an_argument_that_cannot_be_read_ends_as_code_that_cannot_be_loaded(desk: Desk) -> None:
    desk.supervisor.give("torn", pickle.dumps((work.give_back, (1,), {}))[:-5])
    assert (await desk.end_of("torn")).cause == ends.CANNOT_START


def test_a_runner_started_by_hand_says_what_it_is_for() -> None:
    for arguments in ((), ("hello",)):
        found = subprocess.run(
            [sys.executable, "-m", "scalable.worker.runner", *arguments],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=os.environ,
        )  # fmt: skip
        assert found.returncode == 2
        assert "started by a worker" in found.stderr
        assert "Traceback" not in found.stderr


@on_a_desk(slots=2)
async def test_work_never_waits_behind_long_work_while_a_slot_is_free(desk: Desk) -> None:
    """Short work makes a runner quick, so that more would be sent ahead to it if it were the only one."""
    for _ in range(3):
        await desk.value(work.give_back, 1)
    desk.give("long", time.sleep, 3600)
    await desk.began("long")
    assert await desk.value(work.give_back, 2) == 2
    desk.supervisor.kill("long", ends.STOPPED)
    await desk.end_of("long")
