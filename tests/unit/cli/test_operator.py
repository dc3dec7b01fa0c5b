"""What operators do about sessions that are over, cannot be asked, or are not unique: from journals and the store."""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from scalable import __version__
from scalable.axes import Value
from scalable.cli.commands.debug import saved
from scalable.doctor.worker import checks
from scalable.errors import ScalableError
from scalable.observe import RunFolder
from scalable.store import Row, RowStatus, open_store
from tests.helpers.cli.commands import Call, call
from tests.helpers.cli.operator import RUNS, a_story
from tests.helpers.observe.builders import a_live_run, a_run, attempt, attempt_ended, record

__all__ = ["call"]

ACTS = ("dump w1", "kill w1", "profile w1", "pause", "resume", "doctor --worker w1")


def key(name: object) -> str:
    return blake2b(repr(name).encode(), digest_size=16).hexdigest()


def a_row(name: object = "row") -> Row:
    fold = name if isinstance(name, int) else 0
    axes: dict[str, Value] = {"calibration": "isotonic", "asset": "AAVEUSDC", "fold": fold, "cost_bps": 10.0}
    compared = ("calibration",)
    return Row(run_key=key(name), sweep="calibration", axes=axes, compared=compared, metrics={"sharpe": 1.25})


@pytest.mark.parametrize("command", ACTS)
def test_without_any_run_a_command_says_so(call: Call, command: str) -> None:
    shown = call(*command.split())
    assert (shown.status, shown.out) == (1, "")
    assert shown.err == "nothing is running; no run is recorded in .scalable/runs\n"


@pytest.mark.parametrize("command", ACTS)
def test_a_session_that_is_over_cannot_be_asked_and_this_is_said_at_once(call: Call, command: str) -> None:
    folder = a_run(RUNS, *a_story())
    shown = call(*command.split())
    assert shown.status == 1
    assert f"{folder.run_id} is over: nobody is there to ask" in shown.err
    assert not folder.control.exists()


@pytest.mark.parametrize("arguments", [(), ("--dry-run",), ("--yes", "--format", "json")])
def test_a_run_that_is_over_cannot_be_stopped(call: Call, arguments: tuple[str, ...]) -> None:
    folder = a_run(RUNS, *a_story())
    shown = call("stop", folder.run_id, *arguments)
    assert (shown.status, shown.out) == (1, "") and "there is nothing to stop" in shown.err
    assert not folder.control.exists()


def test_the_workers_of_a_session_that_is_over_are_none(call: Call) -> None:
    folder = a_run(RUNS, *a_story())
    shown = call("workers")
    assert (shown.status, shown.err) == (0, "")
    assert shown.out.startswith(f"{folder.run_id} is over, ok: it has no workers")
    assert call("workers", "--format", "json").json == {"run_id": folder.run_id, "state": "ok", "workers": []}


@pytest.mark.parametrize("command", ["kill w1", "pause", "resume"])
def test_where_several_sessions_run_the_one_to_change_must_be_named(call: Call, command: str) -> None:
    names = {a_live_run(RUNS).run_id for _ in range(2)}
    shown = call(*command.split())
    assert shown.status == 2
    assert "2 sessions are running; say which with --run-id" in shown.err
    assert all(name in shown.err for name in names)


def test_an_unknown_run_id_is_answered_with_the_known_ones(call: Call) -> None:
    folder = a_run(RUNS)
    shown = call("kill", "w1", "--run-id", "run-of-yesterday")
    assert shown.status == 2 and folder.run_id in shown.err


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "nan", "1e9"])
def test_a_profile_of_no_length_is_refused(call: Call, seconds: str) -> None:
    a_live_run(RUNS)
    shown = call("profile", "w1", "--seconds", seconds)
    assert shown.status == 2 and "write a number up to 600" in shown.err


def test_a_run_of_a_session_that_is_over_is_explained_from_its_journal(call: Call) -> None:
    folder = a_run(RUNS, *a_story())
    found = call("explain", "first", "--format", "json").json
    assert (found["run_id"], found["run"], found["state"]) == (folder.run_id, "first", "failed")
    assert [one["kind"] for one in found["happened"]] == ["attempt-started", "attempt-ended", "run-ended"]
    out = call("explain", "first").out
    assert "attempt 1 started on w1 (demeter)" in out
    assert "attempt 1 was lost after 1 s: raised, ValueError: -3 is negative" in out


def test_the_only_run_that_did_not_finish_need_not_be_named(call: Call) -> None:
    a_run(RUNS, *a_story())
    out = " ".join(call("explain").out.split())
    assert out.startswith("second not finished · the session ended while it ran on w2: ok")


def test_a_run_that_failed_says_why_first_and_says_it_once(call: Call) -> None:
    a_run(RUNS, *a_story())
    lines = call("explain", "first").out.splitlines()
    assert lines[1] == "  · failed: ValueError: -3 is negative"
    assert [line.split()[1:] for line in lines if line.endswith(" failed")] == [["failed"], ["failed"]]


def test_a_misspelt_run_is_answered_with_the_names_once(call: Call) -> None:
    a_run(RUNS, *a_story())
    shown = call("explain", "nonsense")
    assert (shown.status, shown.err) == (2, "run 'nonsense' is not defined; known: first, second\n")
    assert call("explain", "frist").err == "run 'frist' is not defined; known: first, second; write first\n"


def test_several_unfinished_runs_are_listed(call: Call) -> None:
    a_run(RUNS, attempt("b"), attempt("a"), attempt("c"))
    shown = call("explain")
    assert shown.status == 2 and "name one of the 3 runs not finished in" in shown.err and ": a, b, c" in shown.err


def test_an_unknown_run_is_answered_with_the_known_ones(call: Call) -> None:
    a_run(RUNS, *a_story())
    shown = call("explain", "frist")
    assert shown.status == 2
    assert "run 'frist' is not defined; known: first, second; write first" in shown.err


def test_no_secret_of_a_message_is_shown(call: Call) -> None:
    a_run(RUNS, *a_story(reason="cannot connect to postgres://ann:hunter2@db/x"))
    assert "hunter2" not in call("explain", "first").out


@pytest.fixture
def stored(call: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setenv("SCALABLE_STORE_URL", "sqlite:///results.db")
    with open_store("sqlite:///results.db") as store:
        store.put([replace(a_row(number), run_id="run-20260415T101500Z-lab-1a2b3c4d") for number in range(3)])
        store.put([Row(run_key=key("task"), name="first", value=1), Row(run_key=key("other"), name="second")])
    return call


def finished() -> set[str]:
    with open_store("sqlite:///results.db") as store:
        return {row.run_key for row in store.rows() if row.finished}


@pytest.mark.parametrize(
    ("name", "marked"),
    [
        ("calibration", [0, 1, 2]),
        ("first", ["task"]),
        ("first#2", ["task"]),
        (key(1), [1]),
        (key(1)[:12], [1]),
        ("isotonic AAVEUSDC fold 1 cost_bps 10", [1]),
        ("isotonic AAVEUSDC fold 1 at 10 bps", [1]),
        ("calibration isotonic AAVEUSDC fold 1 at 10 bps", [1]),
        ("AAVEUSDC calibration isotonic fold 2 at 10 bps", [2]),
        ("AAVEUSDC fold 0", [0]),
        ("run-20260415T101500Z-lab-1a2b3c4d", [0, 1, 2]),
        ("AAVEUSDC isotonic", [0, 1, 2]),
    ],
)
def test_rows_of_a_sweep_a_run_a_job_or_a_key_are_marked_failed(stored: Call, name: str, marked: list[object]) -> None:
    shown = stored("mark-failed", name, "--reason", "wrong prices in March", "--yes")
    assert shown.status == 0
    assert f"\nmarked {len(marked)} row" in shown.out
    everything = {key(one) for one in (0, 1, 2, "task", "other")}
    assert finished() == everything - {key(one) for one in marked}
    with open_store("sqlite:///results.db") as store:
        row = store.get(key(marked[0]))
    assert row is not None and row.error == "wrong prices in March"


def test_marking_again_says_that_it_was_done_before(stored: Call) -> None:
    stored("mark-failed", "calibration", "--reason", "wrong", "--yes")
    found = stored("mark-failed", "calibration", "--reason", "wrong", "--format", "json").json
    assert (found["name"], found["marked"], found["marked_before"], found["waiting"]) == ("calibration", 0, 3, 0)


def test_marking_is_shown_first_and_never_done_unasked(stored: Call) -> None:
    shown = stored("mark-failed", "calibration", "--reason", "wrong", "--dry-run", "--format", "json").json
    assert len(shown["rows"]) == 3 and shown["dry_run"]
    refused = stored("mark-failed", "calibration", "--reason", "wrong")
    assert refused.status == 2 and "--yes" in refused.err
    assert "calibration isotonic AAVEUSDC fold 2 cost_bps 10" in refused.out, "it says what it would have marked"
    assert len(finished()) == 5


def test_marked_rows_can_count_again_unless_they_never_had_a_result(stored: Call) -> None:
    with open_store("sqlite:///results.db") as store:
        store.put([replace(a_row(3), metrics={}, run_status=RowStatus.FAILED, error="no")])
    before = finished()
    stored("mark-failed", "calibration", "--reason", "wrong", "--yes")
    done = stored("mark-failed", "calibration", "--undo", "--yes", "--format", "json").json
    assert (done["restored"], done["without_result"]) == (3, 1)
    assert finished() == before
    with open_store("sqlite:///results.db") as store:
        row = store.get(key(0))
        assert row is not None and row.metrics == a_row(0).metrics and row.error is None
    assert stored("mark-failed", "calibration", "--undo", "--yes", "--format", "json").json["restored"] == 0


def test_what_was_computed_again_is_not_touched_by_an_undo(stored: Call) -> None:
    stored("mark-failed", key(0), "--reason", "wrong", "--yes")
    with open_store("sqlite:///results.db") as store:
        store.put([replace(a_row(0), metrics={"sharpe": 9.0}, attempt=2)])
    assert stored("mark-failed", key(0), "--undo", "--yes", "--format", "json").json["restored"] == 0
    with open_store("sqlite:///results.db") as store:
        row = store.get(key(0))
    assert row is not None and row.metrics == {"sharpe": 9.0}


def test_a_name_that_several_sweeps_have_must_say_which(stored: Call) -> None:
    with open_store("sqlite:///results.db") as store:
        store.put([replace(a_row(0), run_key=key("twin"), sweep="second")])
    shown = stored("mark-failed", "AAVEUSDC fold 0", "--reason", "wrong", "--yes")
    assert shown.status == 2 and "calibration AAVEUSDC fold 0" in shown.err.replace("\n", " ")


def test_a_name_without_rows_is_answered_with_those_that_have_some(stored: Call) -> None:
    shown = stored("mark-failed", "calibratoin", "--reason", "wrong")
    assert shown.status == 2
    assert "'calibratoin' has no row in the store; known: calibration, first, second; write calibration" in shown.err
    assert len(finished()) == 5


def test_marking_needs_a_reason(stored: Call) -> None:
    assert stored("mark-failed", "calibration").status == 2
    shown = stored("mark-failed", "calibration", "--reason", " ")
    assert shown.status == 2 and "--reason is empty" in shown.err


def test_without_a_variable_the_manifests_store_is_meant(call: Call) -> None:
    Path("scalable.yaml").write_text("version: 1\nproject: {name: lab}\nstore: sqlite:///other.db\n")
    with open_store("sqlite:///other.db") as store:
        store.put([a_row()])
    assert "marked 1 row of calibration failed" in call("mark-failed", "calibration", "--reason", "x", "--yes").out


def test_what_another_user_kept_is_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = a_run(tmp_path, *a_story())
    folder.works.mkdir()
    folder.work("first").write_bytes(b"")
    if os.geteuid() == 0:
        os.chown(folder.work("first"), 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(ScalableError, match="belongs to another user"):
        saved(folder, "first")


def test_a_run_that_was_not_kept_says_why(call: Call) -> None:
    done = [attempt("good"), attempt_ended("good"), record("run-ended", 30, run="good", state="finished")]
    a_run(RUNS, *a_story(), *done)
    assert "good finished, and only runs that did not are kept" in call("debug", "good").err
    assert "first was not kept" in call("debug", "first").err
    assert "its session ended before it was given up; scalable run --task second" in call("debug", "second").err
    shown = call("debug", "nobody")
    assert shown.status == 2 and "known: first, good, second" in shown.err


def test_a_run_that_still_runs_is_not_kept_yet(call: Call) -> None:
    a_live_run(RUNS, *a_story())
    shown = call("debug", "second")
    assert shown.status == 1 and "what it does is kept once it has failed" in shown.err


def test_names_that_are_no_file_names_are_kept_apart(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    names = ["first", "first#2", "first/2", "first 2", "ü", "a" * 200, "a" * 201, ".."]
    assert len({folder.work(name) for name in names}) == len(names)
    assert {folder.work(name).parent for name in names} == {folder.works}
    assert folder.work("first").name == "first.pickle"


RUNNER: dict[str, Any] = {"guard": "deny", "allow": [], "grpc": {"GRPC_ENABLE_FORK_SUPPORT": "0"}, "native_threads": 1}


RUNNER |= {"threads": {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}, "scalable": __version__}


RUNNER |= {"python": platform.python_version(), "versions": {"numpy": "2.0"}}

WELL: dict[str, Any] = {
    "runner": RUNNER,
    "memory": 2**30,
    "memory_by": "the kernel",
    "cpus": 2,
    "slots": 1,
    "runners": 1,
}


def found(**changes: Any) -> dict[str, str]:
    """The status of each check when the runner's protections are as they should be but for the changes."""
    told = {**WELL, **{name: value for name, value in changes.items() if name in WELL}}
    inside = {name: value for name, value in changes.items() if name not in WELL}
    told["runner"] = {**told["runner"], **inside} if told["runner"] else {}
    return {check.code: check.severity.value for check in checks("w1", told)}


def test_a_worker_with_every_protection_is_well() -> None:
    assert set(found().values()) == {"ok"}
    assert set(found()) == {"runner", "fork-guard", "threads", "gRPC", "thread-pools", "memory", "versions"}


@pytest.mark.parametrize(
    ("changes", "name", "status"),
    [
        ({"runner": {}}, "runner", "error"),
        ({"guard": None}, "fork-guard", "error"),
        ({"guard": "warn"}, "fork-guard", "warning"),
        ({"guard": "allow"}, "fork-guard", "warning"),
        ({"allow": ["torch.utils.data"]}, "fork-guard", "ok"),
        ({"native_threads": 5}, "threads", "warning"),
        ({"grpc": {}}, "gRPC", "warning"),
        ({"grpc": {"GRPC_ENABLE_FORK_SUPPORT": "1"}}, "gRPC", "warning"),
        ({"threads": {}}, "thread-pools", "warning"),
        ({"threads": {"OMP_NUM_THREADS": "8"}}, "thread-pools", "warning"),
        ({"cpus": 1}, "thread-pools", "warning"),
        ({"memory": None}, "memory", "warning"),
        ({"python": "3.9.0"}, "versions", "warning"),
        ({"scalable": "99"}, "versions", "warning"),
    ],
)
def test_a_protection_that_is_missing_is_named(changes: dict[str, Any], name: str, status: str) -> None:
    assert found(**changes)[name] == status


def test_whose_worker_is_meant_is_said_only_with_a_worker(call: Call) -> None:
    shown = call("doctor", "--run-id", "run-1")
    assert shown.status == 2 and "--worker" in shown.err
