"""``results``, ``decide`` and ``lock`` on a store with made-up rows: what people and machines get, and how they end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scalable.manifest import load_file
from scalable.sweeps.compiling import compiled
from scalable_finetune.catalogue import FACTORS
from tests.helpers.cli.commands import Call, call
from tests.helpers.sweeps.gates.builders import a_cell
from tests.helpers.sweeps.gates.stores import a_folder, drop_all

__all__ = ["call"]  # a fixture

GAINS = {"isotonic": {"sharpe": 2.0, "sortino": 2.0}, "sigmoid": {"f1": -2.0}}
GONE = a_cell("sigmoid", "OPUSDC", 4, 30.0)


@pytest.fixture(autouse=True)
def own_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALABLE_STORE_URL", raising=False)


@pytest.fixture
def complete(call: Call, tmp_path: Path) -> Call:
    a_folder(tmp_path, GAINS)
    return call


@pytest.fixture
def incomplete(call: Call, tmp_path: Path) -> Call:
    a_folder(tmp_path, GAINS, failing=lambda cell: cell == GONE)
    return call


def test_results_show_a_column_per_variant_and_a_line_per_metric(complete: Call) -> None:
    shown = complete("results", "calibration")
    assert shown.status == 0
    lines = [line.split() for line in shown.out.splitlines()]
    assert lines[0] == ["calibration", "150", "of", "150", "rows,", "complete"]
    assert ["none", "(baseline)", "sigmoid", "isotonic"] in lines
    assert ["rows", "50/50", "50/50", "50/50"] in lines
    assert any(line[:1] == ["sharpe"] and len(line) == 4 for line in lines)


def test_results_for_machines_have_every_row(complete: Call) -> None:
    told = complete("results", "calibration", "--format", "json").json
    assert (told["complete"], told["expected"], len(told["rows"])) == (True, 150, 150)
    assert {"factor", "variant", "asset", "fold", "cost_bps"} <= set(told["rows"][0])
    assert {"run_status", "attempt", "elapsed_s", "metrics"} <= set(told["rows"][0])
    assert re.fullmatch(r"[0-9a-f]{32,}", told["rows"][0]["run_key"])  # no secret, whatever it looks like


def test_results_say_which_rows_failed_and_why(incomplete: Call) -> None:
    shown = incomplete("results", "calibration")
    assert "149 of 150 rows, incomplete" in shown.out
    assert "1 row failed: sigmoid OPUSDC fold 4 cost_bps 30" in shown.out
    assert "sigmoid OPUSDC fold 4 cost_bps 30: killed: out of memory" in shown.out


def test_every_row_can_be_shown(incomplete: Call) -> None:
    lines = incomplete("results", "calibration", "--all").out.splitlines()
    rows = [line.split() for line in lines if "USDC" in line and "cost_bps" not in line and "debug" not in line]
    assert len(rows) == 150
    assert ["sigmoid", "OPUSDC", "4", "30", "failed", "2.5", "s", "–", "–", "–", "–"] in rows


def test_decide_shows_variants_by_rank_with_gain_interval_and_verdict(complete: Call) -> None:
    shown = complete("decide", "calibration")
    assert shown.status == 0
    lines = [line.split() for line in shown.out.splitlines()]
    [first] = [line for line in lines if line[:2] == ["1", "isotonic"]]
    [second] = [line for line in lines if line[:2] == ["2", "sigmoid"]]
    assert first[-3:] == ["LOCK", "←", "recommended"]
    assert second[-1] == "inconclusive"
    assert "t over 5 assets, averaged over 5 folds" in shown.out
    assert "would undo this" in shown.out
    assert "scalable lock calibration isotonic" in shown.out


def test_decide_shows_all_metrics_and_the_rule_of_one_variant(complete: Call) -> None:
    shown = complete("decide", "calibration", "--variant", "isotonic")
    lines = [line.split() for line in shown.out.splitlines()]
    assert any(line[:2] == ["sharpe", "primary"] for line in lines)
    assert any(line[:2] == ["f1", "other"] for line in lines)
    assert sum(line[:2] == ["✓", "LOCK"] for line in lines) == 2
    assert complete("decide", "calibration", "--variant", "platt").status == 2
    assert complete("decide", "calibration", "--variant", "none").status == 0


def test_decide_fits_a_narrow_terminal(complete: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = complete("decide", "calibration").out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.split()[:2] == ["1", "isotonic"] and line.split()[-2] == "LOCK" for line in lines)  # still a table


def test_decide_for_machines(complete: Call) -> None:
    told = complete("decide", "calibration", "--format", "json").json
    assert (told["complete"], told["baseline"]) == (True, "none")
    assert (told["primary"], told["recommended"]) == ("sharpe", "isotonic")
    assert [(one["variant"], one["verdict"]) for one in told["variants"]] == [
        ("sigmoid", "KEEP_AVAILABLE"),
        ("isotonic", "LOCK"),
    ]


def test_a_plan_says_what_the_grid_can_find_by_the_spread_of_stored_rows(complete: Call) -> None:
    measured = complete("plan", "--sweep", "calibration", "--format", "json").json["power"]
    assert measured["possible"] and measured["measured"] and 0 < measured["detectable"] < 0.1
    unmeasured = complete("plan", "--sweep", "trees", "--format", "json").json["power"]
    assert (unmeasured["detectable"], unmeasured["measured"]) == (None, False)


def test_an_incomplete_sweep_ends_decide_with_1_and_decides_nothing_about_what_lacks_rows(incomplete: Call) -> None:
    shown = incomplete("decide", "calibration")
    assert shown.status == 1
    assert "149 of 150 rows, incomplete" in shown.out
    assert "1 row failed: sigmoid OPUSDC fold 4 cost_bps 30" in shown.out
    told = incomplete("decide", "calibration", "--format", "json")
    assert told.status == 1
    verdicts = {one["variant"]: one["verdict"] for one in told.json["variants"]}
    assert verdicts == {"sigmoid": "KEEP_AVAILABLE", "isotonic": "LOCK"}
    refused = incomplete("lock", "calibration", "sigmoid")
    assert refused.status == 1
    assert "1 row failed" in refused.err


def test_a_sweep_with_only_the_baseline_says_that_there_is_nothing_to_compare(call: Call, tmp_path: Path) -> None:
    a_folder(tmp_path)
    manifest = tmp_path / "scalable.yaml"
    text = manifest.read_text(encoding="utf-8").replace(
        "factor: calibration,", "factor: calibration, variants: [none],"
    )
    manifest.write_text(text, encoding="utf-8")
    shown = call("decide", "calibration")
    assert shown.status == 0
    assert "the sweep has only none: there is nothing to compare it with" in shown.out


def test_rows_that_were_marked_failed_decide_nothing(complete: Call, tmp_path: Path) -> None:
    drop_all(tmp_path)
    shown = complete("decide", "calibration")
    assert shown.status == 1
    assert "0 of 150 rows" in shown.out


def test_lock_writes_the_base_and_undo_takes_it_back(complete: Call) -> None:
    locked = complete("lock", "calibration", "isotonic")
    assert locked.status == 0
    assert "base of every further sweep: calibration isotonic (version 1)" in locked.out
    assert "scalable run trees  runs the next factor on this base" in locked.out
    assert complete("lock", "--list", "--format", "json").json["current"]["base_env"] == {"calibration": "isotonic"}
    undone = complete("lock", "--undo", "--reason", "prices were wrong")
    assert undone.out.startswith("undo of version 1: prices were wrong: calibration is as it was before any lock")
    listed = complete("lock", "--list")
    assert "in force" not in listed.out
    assert "nothing is locked (version 2)" in listed.out


def test_lock_refuses_what_the_verdict_refuses_unless_forced(complete: Call) -> None:
    refused = complete("lock", "calibration", "sigmoid")
    assert refused.status == 1
    assert "its verdict is KEEP_AVAILABLE" in refused.err
    assert complete("lock", "calibration", "sigmoid", "--force").status == 2
    forced = complete("lock", "calibration", "sigmoid", "--force", "--reason", "agreed", "--format", "json")
    assert forced.json["base_env"] == {"calibration": "sigmoid"}
    assert "is locked already" in complete("lock", "calibration", "sigmoid", "--force", "--reason", "agreed").out


def test_a_number_is_locked_as_the_sweeps_own_number(complete: Call) -> None:
    for written, meant in (("100", 100), ("0.5", 0.5)):
        told = complete("lock", "trees", written, "--sweep", "trees", "--force", "--reason", "x", "--format", "json")
        assert told.json["base_env"] == {"trees": meant}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("results", "calibrations"), "write calibration"),
        (("results",), "which sweep? write its name: calibration, trees, forest"),
        (("decide", "nothing"), "known: calibration, forest, trees"),
        (("lock",), "scalable lock calibration isotonic"),
        (("lock", "calibration"), "scalable lock calibration isotonic"),
        (("lock", "--undo", "--list"), "go alone"),
        (("lock", "calibration", "platt"), "known: isotonic, none, sigmoid"),
        (("lock", "calibrations", "none"), "write calibration"),
        (("lock", "trees", "50", "--sweep", "calibration"), "sweep calibration varies calibration, not trees"),
        (("lock", "--undo"), "nothing is locked"),
    ],
)
def test_wrong_use_ends_with_2_and_says_what_to_write(complete: Call, arguments: tuple[str, ...], said: str) -> None:
    answer = complete(*arguments)
    assert answer.status == 2
    assert said in answer.err


def test_the_default_of_a_factor_that_no_sweep_varies_can_be_locked(complete: Call) -> None:
    locked = complete("lock", "cleanlab", "off", "--format", "json")
    assert locked.status == 0 and locked.json["base_env"] == {"cleanlab": "off"}
    assert complete("lock", "cleanlab", "off", "--format", "json").json["changed"] is False


def test_another_variant_of_a_factor_that_no_sweep_varies_needs_force_and_a_reason(complete: Call) -> None:
    other = next(variant for variant in FACTORS["cleanlab"].variants if variant != "off")
    assert complete("lock", "cleanlab", str(other)).status == 1
    assert complete("lock", "cleanlab", str(other), "--force").status == 2
    forced = complete("lock", "cleanlab", str(other), "--force", "--reason", "agreed", "--format", "json")
    assert forced.json["base_env"] == {"cleanlab": other} and "agreed" in forced.json["reason"]
    assert complete("lock", "cleanlab", "off").status == 1, "another one is locked, which nothing was compared with"
    assert complete("lock", "cleanlab", "often").status == complete("lock", "nothing", "off").status == 2


def test_a_default_that_is_locked_changes_no_row_of_other_factors(complete: Call, tmp_path: Path) -> None:
    manifest = load_file(tmp_path / "scalable.yaml", env={}).manifest
    plain = [key for key, _ in compiled(manifest, "calibration", {}).expected]
    for factor in FACTORS.values():
        if factor.name != "calibration":
            locked = compiled(manifest, "calibration", {factor.name: factor.variants[0]})
            assert [key for key, _ in locked.expected] == plain, factor.name
