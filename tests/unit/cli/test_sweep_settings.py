"""What the trading workload cannot do is refused by ``validate``, ``plan`` and ``run`` alike, at its place."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scalable.store import open_store
from tests.helpers.cli.commands import Answer, Call, call

__all__ = ["call"]  # a fixture

HEAD = "version: 1\nproject: {name: w}\ntargets: {here: {provider: local}}\n"


def checked(call: Call, folder: Path, sweep: str, command: str = "validate") -> Answer:
    (folder / "scalable.yaml").write_text(f"{HEAD}sweeps:\n  s: {{{sweep}}}\n", encoding="utf-8")
    return call(command)


@pytest.mark.parametrize(
    ("sweep", "path", "words"),
    [
        ("factor: calibration, assets: [A], settings: {horizn: 6h}", "sweeps.s.settings.horizn", "write horizon"),
        ("factor: calibration, assets: [A], settings: {model: logistic}", "sweeps.s.settings.model", "known: "),
        ("factor: calibration, assets: [A], settings: {take_profit: x}", "sweeps.s.settings.take_profit", "e.g. 1.0"),
        ("factor: calibration, assets: [A], settings: {cleanlab: maybe}", "sweeps.s.settings.cleanlab", "off, prune"),
        (
            "factor: focal_loss, assets: [A], settings: {label_smoothing: 0.1}",
            "sweeps.s.settings.label_smoothing: focal_loss: 1.0 sharpens",
            "write focal_loss: off or label_smoothing: 0.0",
        ),
        (
            "factor: classification_mode, assets: [A], settings: {cusum_training_mode: disabled}",
            "sweeps.s.settings.cusum_training_mode",
            "write cusum_training_mode: events",
        ),
        ("factor: fold_size, variants: [60d, 90d], assets: [A], folds: 12", "sweeps.s.variants[1]", "folds: 11"),
        ("factor: calibration, assets: [A], folds: 200", "sweeps.s.folds", "years: 49.6"),
        ("factor: n_features, variants: [80, 273], assets: [A]", "sweeps.s.variants[1]", "272 or full"),
        ("factor: n_features, variants: [80, x], assets: [A]", "sweeps.s.variants[1]", "272 or full"),
        ("factor: timeframe, variants: [1h, often], assets: [A]", "sweeps.s.variants[1]", "often"),
        ("factor: focal_loss, variants: [off, 9], assets: [A]", "sweeps.s.variants[1]", "under 5"),
        ("factor: calibration, assets: [A], costs_bps: [10, 20000]", "sweeps.s.costs_bps[1]", "write 10 for"),
        ("factor: calibration, assets: [A], settings: {trials: 3}", "sweeps.s.settings.trials", "beside settings"),
        ("factor: calibration, assets: [A], settings: {calibration: none}", "sweeps.s.settings.calibration", "remove"),
        ("factor: depth, variants: [1], assets: [A], run: mine.good", "sweeps.s.run", "write package.module:function"),
    ],
)
@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_what_cannot_work_is_refused_before_anything_starts(
    call: Call, tmp_path: Path, sweep: str, path: str, words: str, command: str
) -> None:
    refused = checked(call, tmp_path, sweep, command)
    assert refused.status == 1
    assert f"  {path}" in refused.err and words in refused.err
    assert "scalable.yaml:5:" in refused.err
    assert not (tmp_path / ".scalable").exists()


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ("factor: calibration, assets: [A], settings: {horizon: 30m}", "unless another timeframe is locked"),
        ("factor: calibration, assets: [A], folds: 15", "unless another fold_size is locked"),
        ("factor: calibration, assets: [A], settings: {market: ./nowhere}", "nor a folder on this machine"),
        ("factor: mine, variants: [1, 2], assets: [A]", "write run: package.module:function"),
        ("factor: model, variants: [xgboost, logistic], assets: [A]", "write run: package.module:function"),
    ],
)
def test_what_may_work_elsewhere_or_on_another_base_is_a_warning(
    call: Call, tmp_path: Path, sweep: str, said: str
) -> None:
    answer = checked(call, tmp_path, sweep)
    assert answer.status == 0
    assert said in answer.out and "is good" in answer.out


def test_one_mistake_is_told_once_though_every_variant_has_it(call: Call, tmp_path: Path) -> None:
    refused = checked(call, tmp_path, "factor: fold_size, assets: [A], settings: {embargo: 40d}")
    assert refused.err.count("sweeps.s.settings.embargo") == 1


def test_every_factor_of_the_catalogue_is_good_as_it_is(call: Call, tmp_path: Path) -> None:
    from scalable_finetune.catalogue import FACTORS

    sweeps = "".join(f"  {name}: {{factor: {name}, assets: defi_top5}}\n" for name in FACTORS)
    (tmp_path / "scalable.yaml").write_text(f"{HEAD}sweeps:\n{sweeps}", encoding="utf-8")
    answer = call("validate")
    assert answer.status == 0
    assert answer.out.endswith("scalable.yaml is good: 1 target, 10 sweeps\n")


def test_who_only_plans_needs_nothing_of_the_workload(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scalable_finetune.workload", None)  # as without numpy
    assert checked(call, tmp_path, "factor: calibration, assets: [A], settings: {horizn: 6h}").status == 0


def test_results_of_a_good_sweep_are_shown_beside_one_that_cannot_run(call: Call, tmp_path: Path) -> None:
    (tmp_path / "scored.py").write_text("def score(*, asset, fold, depth):\n    return {'score': 1.0}\n")
    good = "  good: {factor: depth, variants: [1, 2], assets: [A], folds: 1, run: 'scored:score'}\n"
    bad = "  bad: {factor: calibration, assets: [A], settings: {horizn: 6h}}\n"
    (tmp_path / "scalable.yaml").write_text(f"{HEAD}sweeps:\n{good}{bad}", encoding="utf-8")
    open_store("sqlite:///.scalable/results.db").close()
    assert "0 of 2 rows" in call("results", "good").out
    assert call("validate").status == 1


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_a_factor_of_numbers_takes_more_values_than_the_catalogue_lists(
    call: Call, tmp_path: Path, command: str
) -> None:
    assert checked(call, tmp_path, "factor: n_features, variants: [80, 272], assets: [A]", command).status == 0
