"""The commands about runs: ``report``, ``status`` and ``logs``, on journals as sessions write and leave them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from scalable.observe import RunFolder, RunState
from tests.helpers.cli.commands import Call, call
from tests.helpers.cli.runs import NAMES, RUNS, a_story
from tests.helpers.observe.builders import (
    START,
    Record,
    a_live_run,
    a_run,
    fall_silent,
    joined,
    lost,
    record,
    task,
    write,
)
from tests.helpers.observe.forbidden import forbid
from tests.helpers.observe.tariffs import machine, tariff

__all__ = ["call"]


@pytest.fixture
def told(call: Call) -> RunFolder:
    """One run that ended, in the folder the command runs in."""
    return a_run(RUNS, *a_story())


def test_a_report_tells_why_tasks_failed_once(call: Call) -> None:
    reason = "TaskError: 1 of 2 tasks did not finish:\n  fat: out of memory; ask for 512 MiB"
    ended = record("ended", 90, status="failed", reason=reason)
    failed = record("run-ended", 10, run="fat", state="failed", reason="out of memory; ask for 512 MiB")
    alerts = [record("alert", 11, alert="failed", run="fat", text=f"fat: {failed['reason']}")]
    alerts.append(record("alert", 12, alert="retry-used", run="uni", text="uni is run again"))
    a_run(RUNS, failed, *alerts, ended, end=False)
    out = call("report").out
    assert out.count("ask for 512 MiB") == 1
    assert "failed: TaskError: 1 of 2 tasks did not finish\n" in out
    assert "uni is run again" in out
    a_run(RUNS, failed, alerts[0], ended, end=False)
    assert "Findings" not in call("report").out


def test_a_report_begins_with_the_lines_people_rely_on(call: Call, told: RunFolder) -> None:
    shown = call("report")
    assert shown.status == 0
    assert shown.out.splitlines()[:4] == [
        f"run_id: {told.run_id}",
        "Workers:",
        "  demeter: 5 started, 3 removed, 2 final",
        "Scaling events: 3 scale-up, 1 scale-down",
    ]


def test_a_report_goes_on_with_tasks_memory_losses_findings_and_the_plan(call: Call, told: RunFolder) -> None:
    out = " ".join(call("report", "--latest").out.split())
    for text in (
        "state ok",
        "took 1 min 40 s",
        "cost EUR 0.17",
        "+5 demeter work for 50",
        "demeter 50 1 1 2 s 2 s",
        "10:15:19 inc-7 ValueError: inc-7 is bad",
        "demeter 7 GiB 8 GiB 87.5 % inc-3",
        "workers demeter 6 5",
        "time 1 min 51 s",
        "cost EUR 0.20 EUR 0.17",
        "demeter: 1 never joined",
        "lost, out of memory: 1",
        "retries: 1 after out of memory",
        "demeter-0 8.1 GiB of 8 GiB",
        "demeter-5 does not connect; write interface: eth0",
        "inc-3 was run again",
    ):
        assert text in out, text


def test_a_report_for_machines_has_its_shape(call: Call, told: RunFolder) -> None:
    found = call("report", "--format", "json").json
    shape = ["run", "workers", "scaling", "tasks", "retries", "peaks", "cost", "plan_vs_actual", "incidents"]
    assert set(shape) <= set(found)
    assert found["run"]["run_id"] == told.run_id
    assert found["workers"]["demeter"]["started"] == 5
    assert found["scaling"]["up"] == 3
    assert len(found["scaling"]["decisions"]) == 4
    assert found["cost"] == {"amount": 0.17, "currency": "EUR"}


def test_the_run_is_the_latest_unless_it_is_named(call: Call, told: RunFolder) -> None:
    second = a_run(RUNS)
    assert call("report").out.startswith(f"run_id: {second.run_id}\n")
    assert call("report", "--run-id", told.run_id).out.startswith(f"run_id: {told.run_id}\n")
    assert call("report", "--run-id", str(told.path)).out.startswith(f"run_id: {told.run_id}\n")


def test_the_latest_run_of_a_manifest_is_found(call: Call, tmp_path: Path) -> None:
    first = a_run(RUNS, manifest=str(tmp_path / "a.yaml"))
    a_run(RUNS, manifest=str(tmp_path / "b.yaml"))
    assert call("report", "--manifest", "a.yaml").out.startswith(f"run_id: {first.run_id}\n")
    assert call("report", "--manifest", "c.yaml").status == 2


@pytest.mark.parametrize("command", ["report", "logs", "status"])
def test_an_unknown_run_is_wrong_use_and_the_latest_are_named(call: Call, told: RunFolder, command: str) -> None:
    refused = call(command, "--run-id", "run-nonsense")
    assert refused.status == 2
    assert told.run_id in refused.err
    assert refused.out == ""


@pytest.mark.parametrize("command", ["report", "logs"])
def test_without_any_run_it_is_said_where_one_was_looked_for(call: Call, command: str) -> None:
    refused = call(command)
    assert refused.status == 2
    assert "no run is recorded in .scalable/runs" in refused.err


def test_latest_and_a_name_exclude_each_other(call: Call, told: RunFolder) -> None:
    assert call("report", "--latest", "--run-id", told.run_id).status == 2


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_report_is_written_to_a_file(call: Call, told: RunFolder, form: str, tmp_path: Path) -> None:
    shown = call("report", "--format", form).out
    (tmp_path / "out").write_text("old", encoding="utf-8")
    assert call("report", "--format", form, "--output", "out").out == "wrote out\n"
    text = (tmp_path / "out").read_text(encoding="utf-8")
    assert text == shown
    assert sorted(path.name for path in tmp_path.iterdir()) == [".scalable", "out"]


def test_a_report_file_has_no_colour_even_where_colour_is_forced(
    call: Call, told: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    call("report", "--output", "out")
    assert "\x1b" not in (tmp_path / "out").read_text(encoding="utf-8")


def test_a_report_is_not_written_over_a_folder(call: Call, told: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    refused = call("report", "--output", "out")
    assert refused.status == 2
    assert "out is a folder; name a file" in refused.err


def test_a_report_that_cannot_be_written_fails(call: Call, told: RunFolder) -> None:
    failed = call("report", "--output", "none/out")
    assert failed.status == 1
    assert "none/out cannot be written: No such file or directory" in failed.err


def test_a_run_that_recorded_nothing_is_reported_too(call: Call) -> None:
    RunFolder.create("lab", RUNS)
    shown = call("report")
    assert shown.status == 0
    assert "  none" in shown.out
    assert "nothing was recorded" in shown.out


def test_names_with_brackets_and_controls_are_shown_as_they_are(call: Call) -> None:
    bad = "[/red]x"
    a_run(RUNS, joined("w", tag=bad), task("t", tag=bad), lost("w", tag=bad, detail="\x1b[31mred\x07"))
    out = call("report").out
    assert "  [/red]x: 1 started, 1 removed, 0 final" in out
    assert "\x1b" not in out


def test_a_terminal_obeys_nothing_in_what_code_printed(call: Call, told: RunFolder) -> None:
    told.log("demeter-1").write_text("\x1b[31mred\x1b[0m \x1b]52;c;cm0=\x07\x9b2J\u202e|\n", encoding="utf-8")
    assert call("logs", "demeter-1").out == "red �]52;c;cm0=�2J�|\n"


def test_a_terminal_obeys_nothing_in_messages(call: Call, told: RunFolder) -> None:
    (told.logs / "\x1b]0;x.log").touch()
    assert "those that have: �]0;x\n" in call("logs", "demeter-1").err


def test_a_terminal_obeys_nothing_in_json(call: Call, told: RunFolder) -> None:
    write(told, [lost("demeter-2", 90, detail="\x9b2J\u202e")])
    out = call("report", "--format", "json").out
    assert "\\u009b2J\\u202e" in out
    assert not set(out) & set("\x9b\u202e")


def test_secrets_in_a_journal_someone_else_wrote_are_not_shown(call: Call) -> None:
    folder = a_run(RUNS)
    with folder.journal.open("a", encoding="utf-8") as journal:
        journal.write(json.dumps(record("alert", 200, alert="x", text="postgresql://u:hunter2@db")) + "\n")
    for form in ("text", "json"):
        out = call("report", "--format", form).out
        assert "postgresql://u:***@db" in out
        assert "hunter2" not in out


def test_a_report_fits_a_narrow_screen(call: Call, told: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, call("report").out.splitlines())) <= 60


@pytest.mark.parametrize("arguments", [("report",), ("status",), ("logs",)], ids=" ".join)
def test_text_in_a_pipe_has_no_escape_codes_and_no_trailing_blanks(
    call: Call, told: RunFolder, arguments: tuple[str, ...]
) -> None:
    told.log("demeter-1").write_text("hello\n", encoding="utf-8")
    shown = call(*arguments)
    assert shown.status == 0
    assert "\x1b" not in shown.out
    assert [line for line in shown.out.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize("command", ["report", "status", "logs"])
def test_every_command_explains_itself_with_examples(call: Call, command: str) -> None:
    shown = call(command, "--help")
    assert shown.status == 0
    assert f"scalable {command}" in shown.out.split("examples:")[1]


def test_status_says_when_nothing_runs(call: Call) -> None:
    empty = call("status")
    assert empty.status == 0
    assert empty.out == "nothing is running; no run is recorded in .scalable/runs\n"
    assert call("status", "--format", "json").json == {"running": [], "last": None, "run": None, "drivers": []}
    last = a_run(RUNS)
    assert call("status").out.startswith(f"nothing is running; the last run was {last.run_id}: ok")
    assert call("status", "--format", "json").json["last"] == last.run_id
    assert call("status", "--run-id", last.run_id).out.startswith(f"{last.run_id}  ok, 1 min 40 s")


def test_status_says_who_paused_and_that_there_was_trouble(call: Call) -> None:
    pause, resume = (record("operator", at, ask=ask, by="ann@n1") for at, ask in ((3, "pause"), (4, "resume")))
    about = record("incident", 5, id=1, incident="stuck", run="uni", text="in jobs.py:20")
    folder = a_live_run(RUNS, pause, about, record("retry", 6, run="uni", cause="stuck"))
    out = " ".join(call("status").out.split())
    assert "! paused by ann@n1; scalable ops resume goes on" in out
    assert "trouble 1 incident, 1 retry; scalable incidents shows them" in out
    write(folder, [resume])
    found = call("status", "--format", "json").json["run"]
    assert (found["paused"], found["incidents"], found["retries"]) == ("", 1, 1)


def test_status_of_a_run_that_is_over_names_its_incidents(call: Call) -> None:
    a_run(RUNS, record("incident", 5, id=1, incident="stuck", run="uni", text="in jobs.py:20"))
    out = call("status").out
    assert ": ok, 1 incident" in out and "scalable incidents  what went wrong" in out


def test_status_names_other_runs_that_run_too(call: Call) -> None:
    first, second = a_live_run(RUNS), a_live_run(RUNS)
    out = call("status").out
    assert out.startswith(second.run_id)
    assert f"running too: {first.run_id}" in out


def a_far_run(silent_s: float, *records: Record) -> RunFolder:
    """A run on another machine that began two hours ago, on a node of EUR 1 an hour."""
    begun = time.time() - START - 7200
    folder = a_run(RUNS, tariff(), machine(since=begun, price="1"), *records, end=False, at=begun, host="far")
    fall_silent(folder, silent_s)
    return folder


def ended_lately() -> list[Record]:
    """Tasks that say how fast it goes, and others that wait."""
    now = time.time() - START
    tasks = {"demeter": {"waiting": 9, "running": 1, "done": 5, "failed": 0}}
    return [*(task(f"inc-{number}", now - 10 + number, 1) for number in range(5)), record("gauge", now, tasks=tasks)]


def test_a_run_of_another_machine_that_gives_no_sign_is_lost_and_costs_nothing_since(call: Call) -> None:
    folder = a_far_run(3600)
    status = call("status", "--run-id", folder.run_id, "--format", "json").json
    assert (status["running"], status["run"]["state"]) == ([], RunState.LOST.value)
    report = call("report", "--run-id", folder.run_id, "--format", "json").json
    assert report["run"]["duration_s"] == pytest.approx(3600, abs=60)
    assert report["cost"]["amount"] == pytest.approx(1.0, rel=0.02)
    asked = call("pause", "--run-id", folder.run_id)
    assert asked.status == 1 and "is lost: far gave no sign for 1 h" in asked.err
    folder.live_file.touch()
    assert call("status", "--format", "json").json["running"] == [folder.run_id]


def test_a_run_of_another_machine_that_is_silent_says_so(call: Call) -> None:
    a_far_run(0, *ended_lately())
    assert call("status", "--format", "json").json["run"]["left_s"] > 0
    a_far_run(60, *ended_lately())
    status = call("status", "--format", "json").json["run"]
    assert (status["state"], status["left_s"]) == ("running", None)
    assert status["silent_s"] == pytest.approx(60, abs=30)
    assert "ago, from far" in call("status").out


def test_a_run_whose_process_is_stopped_says_so_and_forecasts_no_end(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_live_run(RUNS, *ended_lately())
    assert call("status", "--format", "json").json["run"]["left_s"] > 0
    monkeypatch.setattr("scalable.proc.state_of", lambda pid: "stopped")
    status = call("status", "--format", "json").json["run"]
    assert (status["stopped"], status["left_s"]) == (os.getpid(), None)
    assert f"kill -CONT {os.getpid()}" in call("status").out


def test_a_run_that_is_paused_forecasts_no_end(call: Call) -> None:
    a_live_run(RUNS, *ended_lately(), record("operator", time.time() - START, ask="pause", by="ann"))
    assert call("status", "--format", "json").json["run"]["left_s"] is None


def test_logs_that_may_not_be_read_are_told_as_that(
    call: Call, told: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    told.log("a").write_text("hello\n", encoding="utf-8")
    told.log("b").write_text("secret\n", encoding="utf-8")
    forbid(monkeypatch, told.log("b"))
    shown = call("logs")
    assert (shown.status, shown.out) == (1, "a | hello\n")
    assert f"{told.log('b')} may not be read: Permission denied" in " ".join(shown.err.split())
    assert call("logs", "a").status == 0
    forbid(monkeypatch, told.logs)
    shown = call("logs")
    assert (shown.status, shown.out) == (1, "")
    assert f"{told.logs} may not be read" in " ".join(shown.err.split())


def test_logs_of_all_workers_are_merged_by_their_times_and_named(call: Call, told: RunFolder) -> None:
    told.log("a").write_text(
        "2026-04-15 10:00:01,100 - one\n  of a\n2026-04-15 10:00:03,100 - three\n", encoding="utf-8"
    )
    told.log("b").write_text("no time yet\n2026-04-15T10:00:02.500 two\n", encoding="utf-8")
    assert call("logs").out.splitlines() == [
        "b | no time yet",
        "a | 2026-04-15 10:00:01,100 - one",
        "a |   of a",
        "b | 2026-04-15T10:00:02.500 two",
        "a | 2026-04-15 10:00:03,100 - three",
    ]


def test_the_log_of_one_worker_is_shown_without_its_name(call: Call, told: RunFolder) -> None:
    told.log("a").write_text("hello\nlast without end", encoding="utf-8")
    assert call("logs").out == "hello\nlast without end\n"
    told.log("b").write_text("other\n", encoding="utf-8")
    assert call("logs", "a").out == "hello\nlast without end\n"


def test_a_worker_with_an_odd_name_is_found(call: Call, told: RunFolder) -> None:
    told.log("gpu/1 (b)").write_text("hello\n", encoding="utf-8")
    assert call("logs", "gpu/1 (b)").out == "hello\n"


def test_an_unknown_worker_is_wrong_use_and_the_known_ones_are_named(call: Call, told: RunFolder) -> None:
    for name in NAMES:
        told.log(name).write_text("", encoding="utf-8")
    refused = call("logs", "demeter-9")
    assert refused.status == 2
    assert ", ".join(NAMES) in refused.err


@pytest.mark.parametrize(("lines", "shown"), [("2", ["8", "9"]), ("0", []), ("100", list("0123456789"))])
def test_only_the_last_lines_are_shown(call: Call, told: RunFolder, lines: str, shown: list[str]) -> None:
    told.log("a").write_text("".join(f"{n}\n" for n in range(10)), encoding="utf-8")
    assert call("logs", "--lines", lines).out.splitlines() == shown


def test_the_end_of_a_huge_log_is_shown(call: Call, told: RunFolder) -> None:
    told.log("a").write_bytes(b"x" * 200_000 + b"\n" + b"\xff y\n" * 100_000)
    assert call("logs", "--lines", "3").out == "� y\n" * 3


@pytest.mark.parametrize("lines", ["-1", "x", "1.5", "²", ""])
def test_a_number_of_lines_that_is_none_is_wrong_use(call: Call, told: RunFolder, lines: str) -> None:
    assert call("logs", f"--lines={lines}").status == 2


def test_a_run_without_logs_says_so(call: Call, told: RunFolder) -> None:
    shown = call("logs")
    assert (shown.status, shown.out) == (0, "")
    assert f"{told.run_id} has no logs" in shown.err


def test_secrets_in_logs_are_not_shown(call: Call, told: RunFolder) -> None:
    key = "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n"
    told.log("a").write_text(f"DB_PASSWORD=hunter2 connecting\n{key}done\n", encoding="utf-8")
    shown = call("logs").out
    assert shown.startswith("DB_PASSWORD=*** connecting\n") and shown.endswith("\ndone\n") and "hunter2" not in shown


def test_a_journal_that_grows_while_it_is_reported_is_no_trouble(call: Call) -> None:
    folder = a_live_run(RUNS, *a_story()[:3])
    before = call("report", "--format", "json").json["run"]
    write(folder, [task("late", time.time() - START)])
    after = call("report", "--format", "json").json["run"]
    assert after["records"] == before["records"] + 1
    assert after["state"] == before["state"] == "running"
    assert after["ended"] is None


def test_a_log_that_is_too_long_is_cut_and_that_is_said(
    call: Call, told: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    told.log("a").write_bytes(b"x" * 200_000 + b"\n" + b"y" * 20_000 + b"\n")
    monkeypatch.setattr("scalable.observe.logs.LogReader.share", lambda *_: 1 << 16)
    shown = call("logs", "--lines", "3")
    assert shown.out == "y" * 8192 + " … [line cut]\n"
    assert "earlier ones are left out: a;" in " ".join(shown.err.split())


def test_a_pipe_as_journal_holds_nobody_up(call: Call, told: RunFolder) -> None:
    told.journal.unlink()
    os.mkfifo(told.journal)
    for command in ("status", "report"):
        refused = call(command)
        assert refused.status == 1 and "not a regular file" in refused.err, command
