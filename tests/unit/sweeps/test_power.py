"""What a plan says a sweep can find."""

from __future__ import annotations

from dataclasses import replace

from scalable.manifest.work import Sweep
from scalable.sweeps.power import power_text, sweep_power
from tests.helpers.sweeps.gates.builders import an_outcome


def a_sweep(**options: object) -> Sweep:
    return Sweep.model_validate({"factor": "calibration", "assets": list("ABCDE"), "folds": 5} | options)


def test_without_rows_the_power_is_in_units_of_the_spread() -> None:
    power = sweep_power(a_sweep(), {})
    assert (power.possible, power.measured, power.detectable) == (True, False, None)
    assert power.deviations is not None and 1.0 < power.deviations < 1.4
    assert power.method == "crossed t over 5 assets × 5 periods"


def test_earlier_rows_tell_the_spread() -> None:
    power = sweep_power(a_sweep(), {}, an_outcome())  # differences of 0.014 between two variants' sharpe
    assert power.measured
    assert power.detectable is not None and 0.005 < power.detectable < 0.02


def test_rows_that_are_not_there_tell_nothing() -> None:
    assert not sweep_power(a_sweep(), {}, an_outcome(without=lambda cell: True)).measured


def test_one_block_or_one_variant_makes_a_verdict_impossible_and_the_plan_says_so() -> None:
    single = sweep_power(a_sweep(assets=["A"], folds=1), {})
    alone = sweep_power(a_sweep(variants=["none"]), {})
    assert not single.possible and not alone.possible
    assert power_text(single).startswith("no verdict is possible")


def test_a_declared_smallest_difference_is_answered_with_the_grid_that_finds_it() -> None:
    power = replace(
        sweep_power(a_sweep(), {}, an_outcome()), smallest=0.001, suggestion="17 assets × 10 periods", times=6.8
    )
    assert power_text(power).endswith("you asked for 0.001: that takes 17 assets × 10 periods, 6.8 × the rows")
    assert power_text(replace(power, suggestion=None)).endswith("which no grid of a sane size finds")
