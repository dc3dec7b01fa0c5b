"""``scalable runs`` and ``scalable runs diff``, on journals as this version and earlier ones write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalable.observe import RunFolder
from scalable.observe.journal import read
from scalable.observe.liveness import state_in
from scalable.observe.report import report_of
from scalable.observe.view import RunView
from tests.helpers.cli.commands import Answer, Call, call
from tests.helpers.cli.runs import RUNS, a_story
from tests.helpers.observe.builders import START, a_live_run, a_run, record, sweep_started, task, unit
from tests.helpers.observe.forbidden import forbid

__all__ = ["call"]

CIRCUMSTANCES: dict[str, Any] = {
    "expected": 18, "code": "search:aaaaaaaa row:bbbbbbbb", "data": "d" * 64, "settings": {"depth": 3}, "base": {},
}  # fmt: skip


def a_sweep_run(failed: int = 0, spent: float = 0.5, digest: str = "0123456789abcdef", **changed: Any) -> RunFolder:
    return a_run(
        RUNS,
        sweep_started(**{**CIRCUMSTANCES, **changed}),
        *unit("BTC", rows=9),
        *unit("ETH", rows=9, failed=failed),
        record("cost", 90, spent={"amount": spent, "currency": "EUR"}),
        manifest="/lab/scalable.yaml",
        manifest_digest=digest,
    )


def compared(shown: Answer) -> dict[tuple[str, str], tuple[Any, Any, bool | None]]:
    assert shown.status == 0, shown.err
    return {(each["about"], each["name"]): (each["a"], each["b"], each["same"]) for each in shown.json["compared"]}


def test_runs_are_listed_the_latest_first_with_their_rows_or_tasks_time_and_cost(call: Call) -> None:
    first, second = a_sweep_run(failed=2), a_run(RUNS, *a_story())
    live = a_live_run(RUNS)
    runs = call("runs", "--format", "json").json["runs"]
    assert [run["run_id"] for run in runs] == [live.run_id, second.run_id, first.run_id]
    assert [run["state"] for run in runs] == ["running", "ok", "ok"]
    assert runs[1]["tasks"] == {"count": 50, "failed": 1}
    assert runs[2]["sweeps"] == {"calibration": {"expected": 18, "finished": 16, "failed": 2}}
    assert runs[2]["started"] == START and runs[2]["duration_s"] == 100
    assert runs[2]["cost"] == {"amount": 0.5, "currency": "EUR"}
    out = " ".join(call("runs").out.split())
    assert out.index(live.run_id) < out.index(second.run_id) < out.index(first.run_id)
    assert "50 tasks (1 failed)" in out and "calibration 16 of 18 rows (2 failed)" in out


def test_a_run_is_listed_the_same_from_its_report_as_from_its_journal(call: Call) -> None:
    folder = a_sweep_run(failed=2)
    before = call("runs", "--format", "json").json
    view = RunView.of(read(folder.journal))
    folder.write_report(report_of(view, state_in(folder, view), START))
    folder.journal.unlink()
    assert call("runs", "--format", "json").json == before


def test_only_the_latest_runs_are_listed_unless_all_are_asked_for(call: Call) -> None:
    folders = [a_run(RUNS) for _ in range(22)]
    shown = call("runs", "--format", "json").json
    assert len(shown["runs"]) == 20 and shown["earlier"] == 2
    assert shown["runs"][0]["run_id"] == max(folder.run_id for folder in folders)
    assert "2 earlier runs" in call("runs").out
    assert len(call("runs", "--all", "--format", "json").json["runs"]) == 22


def test_a_list_tells_of_runs_of_one_manifest_and_of_those_that_cannot_be_read(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("runs").status == 0 and call("runs", "--format", "json").json == {"runs": [], "earlier": 0}
    mine, other = a_run(RUNS, manifest=str(Path("lab.yaml").resolve())), a_run(RUNS, task("a"))
    runs = call("runs", "--manifest", "lab.yaml", "--format", "json").json["runs"]
    assert [run["run_id"] for run in runs] == [mine.run_id]
    forbid(monkeypatch, other.journal)
    runs = call("runs", "--format", "json").json["runs"]
    assert {run["run_id"]: run["state"] for run in runs} == {mine.run_id: "ok", other.run_id: "cannot be read"}


def test_a_diff_tells_code_by_stage_manifest_data_settings_rows_and_cost(call: Call) -> None:
    changed: dict[str, Any] = {"code": "search:cccccccc row:bbbbbbbb", "data": "e" * 64, "settings": {"depth": 4}}
    a = a_sweep_run()
    b = a_sweep_run(failed=2, spent=0.75, digest="fedcba9876543210", expected=27, base={"calibration": "x"}, **changed)
    shown = call("runs", "diff", a.run_id, b.run_id, "--format", "json")
    facts = compared(shown)
    assert (shown.json["a"], shown.json["b"]) == (a.run_id, b.run_id)
    assert facts["code", "search"] == ("aaaaaaaa", "cccccccc", False)
    assert facts["code", "row"] == ("bbbbbbbb", "bbbbbbbb", True)
    assert facts["manifest", "digest"] == ("0123456789abcdef", "fedcba9876543210", False)
    assert facts["data", "data"] == ("d" * 64, "e" * 64, False)
    assert facts["setup", "settings"] == ("depth=3", "depth=4", False)
    assert facts["setup", "base"] == ("", "calibration=x", False)
    assert facts["rows", "expected"][:2] == (18, 27)
    assert facts["rows", "finished"][:2] == (18, 16)
    assert facts["rows", "failed"][:2] == (0, 2)
    assert facts["time", "seconds"] == (100, 100, True)
    assert [side["amount"] for side in facts["cost", "bill"][:2]] == [0.5, 0.75]
    lines = {line.split("  ")[0].strip(): line for line in call("runs", "diff", a.run_id, b.run_id).out.splitlines()}
    assert lines["calibration code search"].split()[-2:] == ["aaaaaaaa", "cccccccc"]
    assert lines["cost"].endswith("+50 %")
    assert "calibration code row" not in lines, "what is the same is only named"


def test_a_diff_of_a_run_with_itself_finds_no_difference(call: Call) -> None:
    folder = a_sweep_run()
    facts = compared(call("runs", "diff", folder.run_id, str(folder.path), "--format", "json"))
    assert not [fact for fact, (_, _, same) in facts.items() if same is False]


def test_a_diff_with_a_run_of_an_earlier_version_says_what_that_does_not_record(call: Call) -> None:
    early, now = a_run(RUNS, sweep_started()), a_sweep_run()
    facts = compared(call("runs", "diff", early.run_id, now.run_id, "--format", "json"))
    unknown = {fact for fact, (_, _, same) in facts.items() if same is None}
    assert {("manifest", "digest"), ("code", "search"), ("data", "data"), ("setup", "base")} <= unknown
    out = call("runs", "diff", early.run_id, now.run_id).out
    assert out.count("not recorded") >= 4


def test_a_diff_tells_sweeps_that_only_one_of_them_ran_and_compares_tasks(call: Call) -> None:
    swept, tasks, fewer = a_sweep_run(), a_run(RUNS, *a_story()), a_run(RUNS, task("a"))
    facts = compared(call("runs", "diff", tasks.run_id, swept.run_id, "--format", "json"))
    assert facts["state", "status"] == ("not run", "running", False)
    facts = compared(call("runs", "diff", tasks.run_id, fewer.run_id, "--format", "json"))
    assert facts["tasks", "finished"] == (49, 1, False) and facts["tasks", "failed"] == (1, 0, False)


@pytest.mark.parametrize("ids", [(), ("A",), ("A", "A", "A"), ("A", "run-of-nobody")])
def test_ids_that_cannot_be_meant_are_answered_with_those_there_are(call: Call, ids: tuple[str, ...]) -> None:
    folder = a_run(RUNS)
    shown = call("runs", "diff", *(folder.run_id if run_id == "A" else run_id for run_id in ids))
    assert shown.status == 2 and f"the latest: {folder.run_id}" in shown.err
    assert call("runs", "list", folder.run_id).status == 2
