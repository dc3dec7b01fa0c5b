"""One grammar for all commands: a sweep or a manifest in one place, groups of rare commands, near misses answered."""

from __future__ import annotations

import csv
import io
import json
from argparse import Namespace
from pathlib import Path

import pytest

from scalable.cli.arguments import GROUPED
from scalable.cli.commands.run import forgotten
from scalable.cli.main import RENAMED, main
from scalable.errors import UsageError
from scalable.session.session import ScalableSession
from tests.helpers.cli.commands import Call, call
from tests.helpers.cli.manifests import LOCAL
from tests.helpers.cli.runs import RUNS, a_story
from tests.helpers.observe.builders import a_live_run, a_run
from tests.helpers.sweeps.gates.stores import a_folder

__all__ = ["call"]

RARE = [(group, name) for group, names in GROUPED.items() for name in names]


@pytest.fixture
def lab(call: Call, tmp_path: Path) -> Call:
    """A manifest under another name than commands look for."""
    (tmp_path / "lab.yaml").write_text(LOCAL, encoding="utf-8")
    return call


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "lab.yaml", "--sweep", "calibration"),
        ("plan", "calibration", "--manifest", "lab.yaml"),
        ("plan", "--sweep", "calibration", "--manifest", "./lab.yaml"),
        ("run", "calibration", "--manifest", "lab.yaml", "--dry-run"),
        ("run", "lab.yaml", "--sweep", "calibration", "--dry-run"),
    ],
)
def test_a_sweep_or_a_manifest_stands_in_the_same_place(lab: Call, arguments: tuple[str, ...]) -> None:
    assert lab(*arguments, "--format", "json").json["sweep"] == "calibration"


@pytest.mark.parametrize("command", ["validate", "plan", "doctor"])
def test_a_manifest_is_named_by_its_path_or_by_an_option(lab: Call, command: str) -> None:
    assert lab(command, "lab.yaml").status == 0
    assert lab(command, "--manifest", "lab.yaml").status == 0


def test_two_names_for_one_place_are_refused(lab: Call) -> None:
    assert lab("plan", "calibration", "--sweep", "other", "--manifest", "lab.yaml").status == 2
    assert lab("plan", "lab.yaml", "--manifest", "other.yaml").status == 2


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("run", "calibraton", "--manifest", "lab.yaml"), "write calibration"),
        (("run", "--force"), "write --fresh"),
        (("run", "pipeline.py"), "scalable run --workflow pipeline.py"),
        (("decide", "--swep", "calibration"), "write --sweep"),
        (("results", "--csv"), "write --format csv"),
        (("plann",), "write plan"),
        (("ops", "kil", "first"), "write kill"),
    ],
)
def test_a_near_miss_is_answered_with_what_was_meant(lab: Call, arguments: tuple[str, ...], meant: str) -> None:
    answer = lab(*arguments)
    assert answer.status == 2 and meant in answer.err


@pytest.mark.parametrize(("group", "name"), RARE)
def test_rare_commands_are_in_groups_and_old_names_say_so(
    call: Call, capsys: pytest.CaptureFixture[str], group: str, name: str
) -> None:
    grouped = call(group, name, "--help")
    assert grouped.status == 0 and grouped.err == "" and f"scalable {group} {name}" in grouped.out
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    out, err = capsys.readouterr()
    assert end.value.code == 0 and out == grouped.out
    assert (RENAMED[name] in err) is (name != "completion")


def test_help_has_daily_commands_first_and_the_groups_last(call: Call) -> None:
    out = call("--help").out
    places = [
        out.index(f"\n  {name} ") for name in ("init", "plan", "run", "results", "decide", "stop", "ops", "admin")
    ]
    assert places == sorted(places)
    assert "\n  kill" not in out and "\n  kill" in call("ops", "--help").out


def test_suggested_commands_mean_the_manifest_and_target_that_were_named(call: Call, tmp_path: Path) -> None:
    a_folder(tmp_path)
    (tmp_path / "scalable.yaml").rename(tmp_path / "lab file.yaml")
    answer = call("results", "calibration", "--manifest", "lab file.yaml", "--target", "local")
    assert "scalable decide calibration --manifest 'lab file.yaml' --target local" in answer.out
    (tmp_path / "lab file.yaml").rename(tmp_path / "scalable.yaml")
    assert "scalable decide calibration  " in call("results", "calibration").out


@pytest.mark.parametrize("command", ["results", "decide"])
def test_results_and_decide_take_a_sweep_in_both_ways(call: Call, tmp_path: Path, command: str) -> None:
    a_folder(tmp_path)
    [first, second] = [
        call(command, *words, "--format", "json") for words in (["calibration"], ["--sweep", "calibration"])
    ]
    assert first.json == second.json and first.json["sweep"] == "calibration"


def test_rows_are_exported_as_csv_and_parquet(call: Call, tmp_path: Path) -> None:
    a_folder(tmp_path, without=lambda cell: cell.block[1] == 4)
    printed = list(csv.DictReader(io.StringIO(call("results", "calibration", "--format", "csv").out)))
    assert len(printed) == 150 and printed[0]["variant"] == "none" and float(printed[0]["sharpe"])
    assert [line["run_status"] for line in printed].count("missing") == 30

    assert call("results", "calibration", "--output", "rows.csv").status == 0
    assert list(csv.DictReader(io.StringIO((tmp_path / "rows.csv").read_text()))) == printed
    assert call("results", "calibration", "--output", "rows.json").status == 0
    assert len(json.loads((tmp_path / "rows.json").read_text())["rows"]) == 120

    import polars

    assert call("results", "calibration", "--format", "parquet", "--output", "rows.parquet").status == 0
    table = polars.read_parquet(tmp_path / "rows.parquet")
    assert table.shape[0] == 150 and table["sharpe"].null_count() == 30
    assert call("results", "calibration", "--format", "parquet").status == 2


def test_runs_are_deleted_by_id_age_and_size_after_a_preview(call: Call) -> None:
    first, second = a_run(RUNS, *a_story()), a_run(RUNS, *a_story())
    preview = call("runs", "delete", first.run_id, "--dry-run", "--format", "json").json
    assert preview["runs"] == [first.run_id] and preview["bytes"] > 0 and first.path.exists()

    assert call("runs", "delete", first.run_id).status == 2, "nobody can be asked, and nobody said --yes"
    assert first.path.exists()
    assert call("runs", "delete", first.run_id, "--yes").status == 0
    assert not first.path.exists() and second.path.exists()

    assert call("runs", "delete", "--older-than", "100000d", "--yes", "--format", "json").json["runs"] == []
    assert call("runs", "delete", "--max-size", "0B", "--yes", "--format", "json").json["runs"] == [second.run_id]
    assert not second.path.exists()


def test_a_run_that_is_live_is_never_deleted(call: Call) -> None:
    live, over = a_live_run(RUNS), a_run(RUNS, *a_story())
    assert call("runs", "delete", live.run_id, "--yes").status == 2
    assert call("runs", "delete", "--max-size", "0B", "--yes", "--format", "json").json["runs"] == [over.run_id]
    assert live.path.exists()


def test_deleting_runs_needs_to_know_which(call: Call) -> None:
    assert call("runs", "delete", "--yes").status == 2
    assert call("runs", "--older-than", "3d").status == 2


def test_a_fresh_run_lets_no_finished_row_count_and_asks_before(call: Call, tmp_path: Path) -> None:
    a_folder(tmp_path)
    session = ScalableSession.from_yaml()
    with pytest.raises(UsageError):
        forgotten(session, "calibration", Namespace(asset=None, yes=False))
    assert call("results", "calibration", "--check").status == 0, "nobody could be asked, so nothing changed"
    assert forgotten(session, "calibration", Namespace(asset=None, yes=True))
    rows = call("results", "calibration", "--format", "json").json["rows"]
    assert len(rows) == 150 and {row["run_status"] for row in rows} == {"failed"}


BROKEN = {
    "syntax": ("def score(model)\n    return {}\n", "SyntaxError", "def score(model)"),
    "import": ("import no_such_library\n\n\ndef score(model): ...\n", "no_such_library", "import no_such_library"),
    "name": ("LIMIT = undefined_name\n\n\ndef score(model): ...\n", "NameError", "LIMIT = undefined_name"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_an_error_in_the_code_of_a_sweep_shows_its_line_and_none_of_ours(call: Call, tmp_path: Path, kind: str) -> None:
    code, error, line = BROKEN[kind]
    sweep = f"{{factor: model, variants: [a, b], assets: [x], folds: 2, run: 'broken_{kind}:score'}}"
    (tmp_path / "scalable.yaml").write_text(f"version: 1\nproject: {{name: x}}\nsweeps: {{s: {sweep}}}\n")
    (tmp_path / f"broken_{kind}.py").write_text(code)
    for command in ("run", "validate"):
        answer = call(command, "s")
        assert answer.status == 1 and error in answer.err and line in answer.err
        assert f"broken_{kind}.py" in answer.err and "importlib" not in answer.err and "workload.py" not in answer.err


def test_a_wrong_argument_of_a_function_is_answered_with_those_it_may_use(call: Call, tmp_path: Path) -> None:
    sweep = "{factor: model, variants: [a, b], assets: [x], folds: 2, settings: {depth: 3}, run: 'arguing:score'}"
    (tmp_path / "scalable.yaml").write_text(f"version: 1\nproject: {{name: x}}\nsweeps: {{s: {sweep}}}\n")
    (tmp_path / "arguing.py").write_text("def score(modell, depth, model):\n    return {'score': 1.0}\n")
    answer = call("validate", "s")
    assert answer.status == 1 and "'modell'" in answer.err
    assert all(name in answer.err for name in ("asset", "fold", "model", "depth"))


def test_a_function_that_is_not_there_is_answered_with_those_that_are(call: Call, tmp_path: Path) -> None:
    sweep = "{factor: model, variants: [a, b], assets: [x], folds: 2, run: 'scoring:scoer'}"
    (tmp_path / "scalable.yaml").write_text(f"version: 1\nproject: {{name: x}}\nsweeps: {{s: {sweep}}}\n")
    (tmp_path / "scoring.py").write_text("def score(model):\n    return {'score': 1.0}\n")
    assert "write score" in call("validate", "s").err
