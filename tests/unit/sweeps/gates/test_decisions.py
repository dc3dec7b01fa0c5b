"""Decisions of whole sweeps: what of their rows counts, which metric decides, and what people and machines get."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from scalable.axes import AxisKind
from scalable.errors import ScalableError
from scalable.manifest.work import Sweep
from scalable.sweeps.decisions import Decision, decide
from scalable.sweeps.grid import Cell
from scalable.sweeps.questions import Question, question_of
from scalable.sweeps.results import Outcome, Variant
from scalable.verdicts.guards import Bar, Margin
from scalable.verdicts.judging import Role, VariantResult
from scalable.verdicts.rule import Verdict
from tests.helpers.sweeps.gates.builders import TRADING, a_cell, an_outcome, cells, key, row

GOOD = {"sharpe": 2.0, "sortino": 2.0}
CLEAR = {"isotonic": GOOD}
LOCK, KEEP, ABANDON = Verdict.LOCK, Verdict.KEEP_AVAILABLE, Verdict.ABANDON


def result(outcome: Outcome, variant: Variant = "isotonic") -> VariantResult:
    judged = decide(outcome).of(variant)
    assert judged is not None
    return judged


def test_a_gain_in_the_primary_metric_is_locked_and_others_are_shown() -> None:
    decision = decide(an_outcome(CLEAR))
    assert decision.recommended == "isotonic"
    assert (decision.primary, decision.method, decision.blocks) == ("sharpe", "crossed t over 5 assets × 5 periods", 25)
    isotonic = result(an_outcome(CLEAR))
    assert isotonic.verdict is LOCK
    roles = {metric.name: metric.role for metric in isotonic.metrics}
    assert roles["sharpe"] is Role.PRIMARY
    assert roles["max_drawdown"] is Role.GUARD
    assert roles["sortino"] is roles["trades"] is Role.OTHER


def test_a_gain_in_other_metrics_decides_nothing() -> None:
    assert result(an_outcome({"isotonic": {"sortino": 3.0, "total_return": 3.0, "f1": 3.0}})).verdict is KEEP


def test_a_loss_in_the_primary_metric_is_abandon_whatever_else_is_gained() -> None:
    assert result(an_outcome({"isotonic": {"sharpe": -2.0, "sortino": 3.0, "f1": 3.0}})).verdict is ABANDON


def test_a_much_deeper_drawdown_stops_a_lock() -> None:
    guarded = result(an_outcome({"isotonic": {**GOOD, "max_drawdown": 20.0}}))
    assert guarded.verdict is KEEP
    assert [rule.holds for rule in guarded.rules] == [True, True, False]
    assert result(an_outcome({"isotonic": {**GOOD, "max_drawdown": 2.0}})).verdict is LOCK  # 3 % deeper, 10 % allowed


@pytest.mark.parametrize("how", ["without", "failing"])
def test_a_missing_or_failed_row_holds_up_its_own_variant_only(how: str) -> None:
    gone = a_cell("isotonic", "ARBUSDC", 3, 30.0)
    outcome = an_outcome({"isotonic": GOOD, "sigmoid": GOOD}, **{how: lambda cell: cell == gone})  # type: ignore[arg-type]
    decision = decide(outcome)
    assert not decision.complete
    assert (result(outcome).verdict, result(outcome, "sigmoid").verdict) == (KEEP, LOCK)
    assert decision.recommended == "sigmoid"
    assert "isotonic ARBUSDC fold 3 cost_bps 30" in result(outcome).reason
    assert result(outcome).blocks == 24  # a block of which a cost is missing does not count


def test_a_missing_row_of_the_baseline_holds_up_everything() -> None:
    gone = a_cell("none", "ARBUSDC", 3, 30.0)
    decision = decide(an_outcome({"isotonic": GOOD, "sigmoid": {"sharpe": -3.0}}, without=lambda cell: cell == gone))
    assert {each.verdict for each in decision.variants} == {KEEP}


def test_an_empty_store_decides_nothing() -> None:
    decision = decide(an_outcome(without=lambda cell: True))
    assert [each.verdict for each in decision.variants] == [KEEP, KEEP]
    assert "150 rows missing" in decision.variants[0].reason


def test_a_primary_metric_without_a_value_in_some_blocks_proves_nothing() -> None:
    outcome = an_outcome(CLEAR)
    rows = dict(outcome.rows)
    for run_key, cell in outcome.expected:
        if cell.variant == ("isotonic",) and int(cell.block[1]) > 3:  # where it may have failed
            rows[run_key] = row(cell, {**rows[run_key].metrics, "sharpe": float("nan")})
    assert result(replace(outcome, rows=rows)).verdict is KEEP
    assert result(outcome).verdict is LOCK


def test_costs_are_averaged_and_not_several_observations() -> None:
    once = an_outcome(CLEAR, of=cells(costs=(10.0,)))
    again = {
        cell._replace(averaged=(cost,)): once.rows[run_key].metrics
        for cost in (20.0, 30.0)
        for run_key, cell in once.expected
    }
    rows = dict(once.rows) | {key(cell): row(cell, metrics) for cell, metrics in again.items()}
    thrice = replace(once, expected=[*once.expected, *((key(cell), cell) for cell in again)], rows=rows)
    assert result(thrice).metrics[0].p == pytest.approx(result(once).metrics[0].p)


def test_folds_of_few_trades_are_a_finding_and_no_veto() -> None:
    def thin(cell: Cell) -> float:
        return 49 if (*cell.variant, *cell.block) == ("isotonic", "OPUSDC", 2) else 50

    thinner = result(an_outcome(CLEAR, trades=thin))
    assert thinner.verdict is LOCK
    assert any("1 of 25 blocks with under 50 trades, least 49 in OPUSDC fold 2" in text for text in thinner.findings)
    assert not any("trades" in text for text in result(an_outcome(CLEAR, trades=lambda cell: 50)).findings)


def test_a_workload_outside_trading_is_judged_by_the_first_metric_that_is_known() -> None:
    usual = {"depth": 5.0, "accuracy": 0.8, "log_loss": 0.4}
    outcome = an_outcome({"isotonic": {"accuracy": 2.0}}, usual=usual, question=Question())
    assets, folds = outcome.grid.over
    outcome = replace(outcome, grid=replace(outcome.grid, over=(assets, replace(folds, kind=AxisKind.FOLDS))))
    assert decide(outcome).primary == "accuracy"
    assert decide(outcome).method == "t over 5 assets, averaged over 5 folds"
    assert result(outcome).verdict is LOCK
    stated = replace(outcome, metrics={"log_loss": "lower", "accuracy": "higher"})
    assert decide(stated).primary == "log_loss"
    assert result(stated).metrics[0].higher is False


def test_a_gain_under_the_bar_or_past_a_guard_is_not_locked() -> None:
    usual = {"accuracy": 0.8, "log_loss": 0.4}
    gains = {"isotonic": {"accuracy": 2.0, "log_loss": 30.0}}  # more accurate, and its loss is a good third larger

    def verdict(question: Question) -> Verdict:
        return result(an_outcome(gains, usual=usual, question=question)).verdict

    assert verdict(Question("accuracy")) is LOCK
    assert verdict(Question("accuracy", bars=(Bar("accuracy", above=True, value=0.7),))) is LOCK
    assert verdict(Question("accuracy", bars=(Bar("accuracy", above=True, value=0.9),))) is KEEP
    assert verdict(Question("accuracy", guards={"log_loss": Margin(0.1)})) is KEEP
    assert verdict(Question("accuracy", guards={"log_loss": Margin(1.0)})) is LOCK


def test_one_metric_is_enough() -> None:
    outcome = an_outcome({"isotonic": {"accuracy": 2.0}}, usual={"accuracy": 0.8}, question=Question())
    assert result(outcome).verdict is LOCK


@pytest.mark.parametrize(
    ("question", "reason"), [(Question(), "write e.g.  metrics: {depth: higher}"), (TRADING, "'sharpe'")]
)
def test_without_a_metric_that_decides_the_reason_says_what_to_write(question: Question, reason: str) -> None:
    decision = decide(an_outcome(usual={"depth": 5.0}, question=question))
    assert [each.verdict for each in decision.variants] == [KEEP, KEEP]
    assert reason in decision.variants[0].reason
    json.dumps(decision.to_dict(), allow_nan=False)


def test_without_the_baseline_the_error_says_what_to_add() -> None:
    with pytest.raises(ScalableError, match=r"add none to sweep calibration"):
        decide(an_outcome(of=cells(("sigmoid", "isotonic"))))


def test_true_and_one_are_two_variants() -> None:
    decision = decide(an_outcome({True: GOOD}, of=cells((1, True)), baseline=1))
    assert [(each.variant, each.verdict) for each in decision.variants] == [(True, LOCK)]


def test_machines_get_the_shape_that_is_documented() -> None:
    shape = json.loads(json.dumps(decide(an_outcome(CLEAR)).to_dict(), allow_nan=False))
    assert {"complete", "baseline", "primary", "method", "recommended", "variants"} <= set(shape)
    isotonic = shape["variants"][1]
    keys = {"variant", "verdict", "rank", "rules", "metrics", "indistinguishable_from", "reason"}
    assert keys <= set(isotonic)
    assert {"name", "role", "mean", "delta", "ci", "p", "p_corrected"} <= set(isotonic["metrics"][0])
    assert {"text", "holds"} == set(isotonic["rules"][0])
    assert (isotonic["variant"], isotonic["verdict"], isotonic["rank"]) == ("isotonic", "LOCK", 1)
    assert isotonic["metrics"][0]["role"] == "primary"


def test_a_notebook_shows_verdicts_and_reasons_with_names_escaped() -> None:
    shown = decide(an_outcome({"<b>": GOOD}, of=cells(("none", "<b>"))))._repr_html_()
    assert "<b>LOCK</b>" in shown
    assert "<td>&lt;b&gt;</td>" in shown
    assert "better: sharpe" in shown


def decisions(gains: dict[str, dict[str, float]], times: int) -> list[Decision]:
    of = cells(costs=(10.0,))
    return [decide(an_outcome(gains, seed=seed, of=of)) for seed in range(times)]


def test_chance_alone_hardly_locks_and_a_real_gain_is_found() -> None:
    assert sum(each.recommended is not None for each in decisions({}, 60)) <= 4  # 1.2 % of them, by simulation
    assert sum(each.recommended == "isotonic" for each in decisions({"isotonic": {"sharpe": 1.2}}, 20)) >= 16


def test_the_trading_workload_brings_its_question_and_what_its_factors_make_incomparable() -> None:
    asked = question_of(Sweep.model_validate({"factor": "fold_size", "assets": ["A"]}))
    assert asked.primary == "sharpe"
    assert "max_drawdown" in asked.incomparable
    assert not asked.guards  # a drawdown of another length cannot guard
    plain = question_of(Sweep.model_validate({"factor": "calibration", "assets": ["A"]}))
    assert plain.guards == {"max_drawdown": Margin(0.1)}
    assert not plain.incomparable
    own = question_of(Sweep.model_validate({"factor": "depth", "variants": [1], "assets": ["A"], "run": "mine:score"}))
    assert own == Question()


def test_incomparable_metrics_are_shown_with_the_reason() -> None:
    asked = replace(TRADING, incomparable={"f1": "own labels"})
    f1 = next(metric for metric in result(an_outcome(CLEAR, question=asked)).metrics if metric.name == "f1")
    assert (f1.role, f1.note) == (Role.NOT_COMPARABLE, "own labels")
