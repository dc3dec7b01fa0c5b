"""The verdicts: what leads to each, what stands in the way of LOCK, and how often chance alone would lead to one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from scalable.errors import ScalableError
from scalable.sweeps.decisions import Decision, Judgement, Power, Standing, Verdict
from scalable.sweeps.gates import decide
from scalable.sweeps.grid import Cell
from scalable.sweeps.metrics import Better, Metric
from scalable.sweeps.results import Outcome
from tests.helpers.sweeps.gates.builders import USUAL, an_outcome, cells, key, row

GOOD = {"sharpe": 2.0, "sortino": 2.0}
CLEAR = {"isotonic": GOOD}
QUICK = 100  # resamples, where the interval does not matter


def judgement(outcome: Outcome, variant: str = "isotonic", **options: Any) -> Judgement:
    found = decide(outcome, resamples=QUICK, **options).of(variant)
    assert found is not None
    return found


def standings(one: Judgement) -> dict[str, Standing]:
    return {each.metric.name: each.standing for each in one.metrics}


def test_two_metrics_clearly_better_and_none_worse_is_lock() -> None:
    decision = decide(an_outcome(CLEAR))
    one = decision.of("isotonic")
    assert one is not None
    assert one.verdict is Verdict.LOCK
    assert standings(one)["sharpe"] is standings(one)["sortino"] is Standing.BETTER
    assert all(check.holds for check in one.lock_needs)
    assert not any(check.holds for check in one.abandon_if)
    assert one.abandon_if[0].figures == "none is"
    assert "sharpe +0.0" in one.reason
    assert "80 trades or more in every fold" in one.reason
    assert "all 150 rows are there" in one.reason
    assert decision.recommended == one


def test_one_better_metric_keeps_the_variant_available() -> None:
    one = judgement(an_outcome({"isotonic": {"sharpe": 2.0}}))
    assert one.verdict is Verdict.KEEP_AVAILABLE
    assert one.reason.startswith(
        "LOCK needs at least 2 metrics better (corrected p < 0.05, effect ≥ 0.3): better is sharpe +"
    )


def test_a_drawdown_improves_by_falling() -> None:
    one = judgement(an_outcome({"isotonic": {"max_drawdown": -2.0, "sharpe": 2.0}}))
    assert standings(one)["max_drawdown"] is Standing.BETTER
    assert one.verdict is Verdict.LOCK


def test_a_primary_metric_clearly_worse_is_abandon_whatever_else_is_gained() -> None:
    one = judgement(an_outcome({"isotonic": {**GOOD, "max_drawdown": 2.0}}))
    assert one.verdict is Verdict.ABANDON
    assert one.reason.startswith("significantly worse in what matters most: max_drawdown +0.0")
    assert one.abandon_if[0].figures.startswith("that is max_drawdown +0.0")


def test_another_metric_significantly_worse_stands_in_the_way_of_lock_but_does_not_abandon() -> None:
    one = judgement(an_outcome({"isotonic": {**GOOD, "f1": -2.0}}))
    assert standings(one)["f1"] is Standing.WORSE
    assert one.verdict is Verdict.KEEP_AVAILABLE
    assert "significantly worse is f1 -0.0" in one.reason


def test_no_effect_anywhere_with_power_is_abandon() -> None:
    outcome = copied(an_outcome(of=cells(("none",))))
    one = judgement(outcome, "sigmoid")
    assert one.verdict is Verdict.ABANDON
    assert one.reason.startswith("no effect reaches 0.2, the largest effect is")


def test_no_effect_without_power_keeps_the_variant_available() -> None:
    outcome = copied(an_outcome(of=cells(("none",)), trades=lambda cell: 49))
    one = judgement(outcome, "sigmoid")
    assert one.verdict is Verdict.KEEP_AVAILABLE
    assert "but power is not given" in one.abandon_if[1].figures


def copied(baseline: Outcome) -> Outcome:
    """The baseline's rows again as those of sigmoid, whose metrics are therefore the same."""
    again = [(f"{key[:-1]}{'0' if key[-1] != '0' else '1'}", cell) for key, cell in baseline.expected]
    rows = {
        key: replace(baseline.rows[old], run_key=key, variant="sigmoid")
        for (key, _), (old, _) in zip(again, baseline.expected, strict=True)
    }
    cells = [*baseline.expected, *((key, cell._replace(variant="sigmoid")) for key, cell in again)]
    return replace(baseline, expected=cells, rows={**baseline.rows, **rows})


def test_one_thin_fold_is_flagged_by_name_and_prevents_lock() -> None:
    def thin(cell: Cell) -> float:
        return 49 if (cell.variant, cell.asset, cell.fold) == ("isotonic", "OPUSDC", 2) else 50

    one = judgement(an_outcome(CLEAR, trades=thin))
    assert one.verdict is Verdict.KEEP_AVAILABLE
    thin_fold = "1 of 25 folds with under 50 trades, least 49 in OPUSDC fold 2"
    assert one.reason == f"LOCK needs power (50 trades in every fold, 6 pairs or more): {thin_fold}"
    assert one.to_dict()["underpowered"] is True
    assert judgement(an_outcome(CLEAR, trades=lambda cell: 50)).verdict is Verdict.LOCK


def test_a_thin_fold_of_the_baseline_counts_as_well() -> None:
    one = judgement(an_outcome(CLEAR, trades=lambda cell: 20 if cell.variant == "none" and cell.fold == 1 else 90))
    assert one.power.thin == 5
    assert one.verdict is Verdict.KEEP_AVAILABLE


@pytest.mark.parametrize("how", ["without", "failing"])
@pytest.mark.parametrize("variant", ["none", "sigmoid", "isotonic"])
def test_a_sweep_with_one_row_missing_or_failed_never_yields_lock_and_says_which(how: str, variant: str) -> None:
    gone = Cell("calibration", variant, "ARBUSDC", 3, 30.0)
    outcome = an_outcome({"isotonic": {**GOOD, "hit_rate": 3.0}}, **{how: lambda cell: cell == gone})  # type: ignore[arg-type]
    decision = decide(outcome)
    assert not decision.complete
    assert decision.recommended is None
    word = "missing" if how == "without" else "failed"
    assert decision.shortfall == f"1 row {word}: {variant} ARBUSDC fold 3 at 30 bps"
    one = decision.of("isotonic")
    assert one is not None
    assert one.verdict is Verdict.KEEP_AVAILABLE
    assert decision.shortfall in one.reason
    assert one.power.pairs == (25 if variant == "sigmoid" else 24)  # a pair of which a cost is missing does not count


def test_proven_harm_is_abandon_even_where_rows_are_missing() -> None:
    one = judgement(an_outcome({"isotonic": {"sharpe": -3.0}}, without=lambda cell: cell.fold == 4))
    assert one.verdict is Verdict.ABANDON


def test_an_empty_store_decides_nothing() -> None:
    decision = decide(an_outcome(without=lambda cell: True))
    assert [one.verdict for one in decision.variants] == [Verdict.KEEP_AVAILABLE] * 2
    assert "150 rows missing" in decision.variants[0].reason
    assert "and 145 more" in decision.shortfall


def test_a_metric_without_a_value_in_some_folds_does_not_count_towards_lock() -> None:
    outcome = an_outcome({"isotonic": {"sharpe": 2.0, "sortino": 2.0}})
    rows = dict(outcome.rows)
    for run_key, cell in outcome.expected:
        if cell.variant == "isotonic" and cell.fold > 3:  # where it may have failed
            rows[run_key] = row(cell, {**rows[run_key].metrics, "sharpe": float("nan")})
    one = judgement(replace(outcome, rows=rows))
    assert one.verdict is Verdict.KEEP_AVAILABLE
    assert one.remarks == ("sharpe has no value in 5 of 25 pairs, so it does not count towards LOCK",)
    assert judgement(outcome).verdict is Verdict.LOCK


def test_costs_are_one_observation_and_not_several() -> None:
    once, thrice = (an_outcome(CLEAR, of=cells(costs=costs)) for costs in ((10.0,), (10.0, 20.0, 30.0)))
    one, three = (judgement(each).metrics[0].comparison for each in (once, thrice))
    assert (one.pairs, three.pairs) == (25, 25)
    assert three.p == pytest.approx(one.p)


def test_the_correction_counts_every_variant_and_metric_that_was_looked_at() -> None:
    gains = {"isotonic": {"sharpe": 0.7}}
    alone = judgement(an_outcome(gains, of=cells(("none", "isotonic"))), metrics=[Metric("sharpe", Better.HIGHER, "")])
    among = judgement(an_outcome(gains, of=cells(("none", "isotonic"))))
    assert alone.metrics[0].comparison.p == among.metrics[0].comparison.p
    assert alone.metrics[0].p_corrected < among.metrics[0].p_corrected


def test_a_workload_without_trades_is_judged_by_its_pairs() -> None:
    usual = {"accuracy": 0.8, "log_loss": 0.4, "depth": 5.0}
    decision = decide(an_outcome({"isotonic": {"accuracy": 2.0, "log_loss": -2.0}}, usual=usual))
    one = decision.of("isotonic")
    assert one is not None
    assert one.verdict is Verdict.LOCK
    assert one.lock_needs[2].asks == "power (6 pairs or more; no trades are counted)"
    assert one.lock_needs[2].figures == "25 pairs"
    assert decision.not_judged == ("depth",)


def test_a_workload_with_one_metric_is_told_that_it_can_never_lock() -> None:
    one = judgement(an_outcome({"isotonic": {"accuracy": 2.0}}, usual={"accuracy": 0.8}))
    assert one.verdict is Verdict.KEEP_AVAILABLE
    assert one.remarks == ("LOCK needs 2 metrics and the rows have 1 that can be judged",)


def test_five_pairs_give_no_power() -> None:
    assert not Power(5, 5).given
    assert Power(6, 6).given
    assert not Power(6, 7).given
    assert str(Power(6, 7, 80, ("X", 0))) == "6 of 7 pairs; 80 trades or more in every fold"


def test_a_gain_that_some_assets_do_not_share_is_remarked() -> None:
    gained = {"AAVEUSDC": 0.3, "UNIUSDC": 0.1, "LDOUSDC": 0.1, "ARBUSDC": 0.1, "OPUSDC": -0.1}
    every = cells(("none", "isotonic"))
    rows = {
        key(cell): row(cell, {"sharpe": 1 + (cell.variant != "none") * (gained[cell.asset] + cell.fold / 1000)})
        for cell in every
    }
    one = decide(Outcome("calibration", [(key(cell), cell) for cell in every], rows, "none")).variants[0]
    assert one.metrics[0].standing is Standing.BETTER
    assert one.remarks[0] == "the interval over assets includes 0 for sharpe: the gain may rest on few assets"


def test_without_the_baseline_the_error_says_what_to_add() -> None:
    with pytest.raises(ScalableError, match=r"add none to sweeps\.calibration\.variants"):
        decide(an_outcome(of=cells(("sigmoid", "isotonic"))))


def test_true_and_one_are_two_variants() -> None:
    outcome = an_outcome({True: GOOD}, of=cells((1, True)), baseline=1)
    decision = decide(outcome, resamples=QUICK)
    assert [one.variant for one in decision.variants] == [True]
    assert decision.variants[0].verdict is Verdict.LOCK


def test_machines_get_the_shape_that_is_documented() -> None:
    told = json.loads(json.dumps(decide(an_outcome(CLEAR)).to_dict(), allow_nan=False))
    assert {"complete", "baseline", "variants"} <= set(told)
    one = told["variants"][1]
    assert {"variant", "verdict", "metrics", "reason"} <= set(one)
    assert {"name", "delta", "ci", "p", "p_corrected", "d"} <= set(one["metrics"][0])
    assert (one["variant"], one["verdict"], len(one["metrics"][0]["ci"])) == ("isotonic", "LOCK", 2)


def test_the_same_rows_give_the_same_decision() -> None:
    assert decide(an_outcome(CLEAR)).to_dict() == decide(an_outcome(CLEAR)).to_dict()


def test_a_notebook_shows_verdicts_and_reasons_with_names_escaped() -> None:
    outcome = an_outcome({"<b>": GOOD}, of=cells(("none", "<b>")))
    shown = decide(outcome, resamples=QUICK)._repr_html_()
    assert "<b>LOCK</b>" in shown
    assert "<td>&lt;b&gt;</td>" in shown
    assert "better is sharpe" in shown


def verdicts(gains: dict[str, dict[str, float]], times: int) -> list[Decision]:
    of = cells(costs=(10.0,))
    return [decide(an_outcome(gains, seed=seed, of=of), resamples=1) for seed in range(times)]


def test_chance_alone_locks_less_often_than_one_time_in_twenty() -> None:
    found = verdicts({}, 100)
    assert sum(one.recommended is not None for one in found) / len(found) <= 0.05
    some = [each for one in found for each in one.variants if any(f.standing is Standing.BETTER for f in each.metrics)]
    assert len(some) / len(found) <= 0.1  # 5 % of both variants together, and twice the error of 100 draws


def test_a_real_gain_is_nearly_always_found() -> None:
    gains = dict.fromkeys(("sharpe", "sortino", "total_return"), 1.0)
    found = verdicts({"isotonic": gains}, 40)
    assert sum(one.recommended is not None for one in found) >= 34
    assert all(one.recommended is None or one.recommended.variant == "isotonic" for one in found)


def test_the_usual_metrics_are_all_judged_but_those_that_only_describe() -> None:
    decision = decide(an_outcome())
    assert decision.not_judged == ("trades", "exposure")
    assert len(decision.variants[0].metrics) == len(USUAL) - 2
