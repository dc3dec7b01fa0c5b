"""The rule: what becomes of a variant, in which order, and what is said of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scalable.axes import AxisKind
from scalable.verdicts.guards import Bar, Margin
from scalable.verdicts.judging import Role, judge
from scalable.verdicts.methods import choose
from scalable.verdicts.robustness import skewness, undone_by
from scalable.verdicts.rule import Verdict, p_above
from scalable.verdicts.tables import Floats
from tests.helpers.verdicts.builders import a_comparison, an_axis, assets_and_periods, noise

LOCK, KEEP, ABANDON = Verdict.LOCK, Verdict.KEEP_AVAILABLE, Verdict.ABANDON
SPREAD = noise((4, 5, 5))


def verdict_of(gain: Floats | float, **options: Any) -> Verdict:
    return judge(a_comparison({"new": gain}, **options)).variants[0].verdict


def test_a_clear_gain_is_locked_a_clear_loss_abandoned_and_noise_is_inconclusive() -> None:
    judged = judge(a_comparison({"up": 1 + SPREAD[0], "down": -1 + SPREAD[1], "none too": SPREAD[2]}))
    assert [each.verdict for each in judged.variants] == [LOCK, ABANDON, KEEP]
    assert [each.rank for each in judged.variants] == [1, 3, 2]
    assert judged.recommended == "up"
    assert judged.variants[2].word == "inconclusive"
    assert judged.method == "crossed t over 5 assets × 5 periods"


def test_lower_is_better_where_a_metric_says_so() -> None:
    assert verdict_of(-1 + SPREAD[0], higher={"score": False}) is LOCK
    assert verdict_of(1 + SPREAD[0], higher={"score": False}) is ABANDON


def test_incomplete_rows_decide_nothing_and_hold_up_only_their_own_variant() -> None:
    absent = np.zeros((4, 5, 5), dtype=np.bool_)
    absent[1, 0, 0] = absent[2, 0, 0] = True
    gains = {"up": 1 + SPREAD[0], "down": -1 + SPREAD[1], "whole": 1 + SPREAD[2]}
    for name, gain in gains.items():
        gain[0, 0] = np.nan if name != "whole" else gain[0, 0]
    judged = judge(a_comparison(gains, absent=absent))
    assert [each.verdict for each in judged.variants] == [KEEP, KEEP, LOCK]
    assert [each.complete for each in judged.variants] == [False, False, True]
    assert judged.variants[0].metrics[0].p_corrected == 1.0


def test_a_baseline_with_a_missing_row_decides_nothing() -> None:
    absent = np.zeros((2, 5, 5), dtype=np.bool_)
    absent[0, 1, 1] = True
    assert verdict_of(1 + SPREAD[0], absent=absent) is KEEP


def test_a_row_without_a_primary_metric_counts_as_incomplete() -> None:
    gain = 1 + SPREAD[0]
    gain[2, 2] = np.nan
    assert verdict_of(gain) is KEEP


def test_blocks_that_cannot_exist_are_not_missed() -> None:
    gain = 1 + SPREAD[0] / 3
    comparison = a_comparison({"new": gain})
    comparison.metrics["score"][:, 0, 0] = np.nan  # for the baseline, too, and no row is absent
    judged = judge(comparison)
    assert judged.variants[0].complete
    assert judged.variants[0].blocks == 24
    assert judged.variants[0].verdict is LOCK


def test_incomplete_variants_stay_in_the_correction() -> None:
    gains = {f"v{at}": noise((1, 5, 5), at)[0] for at in range(20)} | {"good": 0.45 + SPREAD[0] / 2}
    alone = judge(a_comparison({"good": gains["good"]})).variants[0].metrics[0]
    absent = np.zeros((22, 5, 5), dtype=np.bool_)
    absent[1:21] = True
    together = judge(a_comparison(gains, absent=absent)).variants[-1].metrics[0]
    assert alone.p_corrected is not None
    assert together.p_corrected == pytest.approx(min(21 * alone.p_corrected, 1.0))


def test_a_variant_that_is_equivalent_is_abandoned_only_where_the_smallest_difference_is_declared() -> None:
    tiny = SPREAD[0] / 1000
    assert verdict_of(tiny) is KEEP
    assert verdict_of(tiny, smallest=0.1) is ABANDON
    assert verdict_of(SPREAD[0], smallest=0.1) is KEEP  # too uncertain to be equivalent
    assert verdict_of(0.01 + tiny, smallest=0.1) is ABANDON  # a gain for certain, and too small to be of interest


def test_a_guard_stops_a_lock_unless_its_worsening_is_surely_within_the_margin() -> None:
    def latency(factor: float) -> dict[str, Any]:
        baseline = np.full((5, 5), 100.0)
        metrics = {"latency": np.stack([baseline, baseline * factor + SPREAD[1]])}
        return {"metrics": metrics, "higher": {"latency": False}, "guards": {"latency": Margin(0.1)}}

    assert verdict_of(1 + SPREAD[0], **latency(1.05)) is LOCK
    assert verdict_of(1 + SPREAD[0], **latency(1.0999)) is KEEP  # not surely: its bound is beyond
    assert verdict_of(1 + SPREAD[0], **latency(0.5)) is LOCK
    judged = judge(a_comparison({"new": 1 + SPREAD[0]}, **latency(1.2)))
    assert judged.variants[0].verdict is KEEP
    assert [rule.holds for rule in judged.variants[0].rules] == [True, True, False]
    assert [(each.name, each.role) for each in judged.variants[0].metrics] == [
        ("score", Role.PRIMARY),
        ("latency", Role.GUARD),
    ]


def test_a_guard_that_no_row_has_holds_nothing() -> None:
    assert verdict_of(1 + SPREAD[0], guards={"latency": Margin(0.1)}) is KEEP
    undirected = {"metrics": {"latency": np.ones((2, 5, 5))}, "guards": {"latency": Margin(0.1)}}
    assert verdict_of(1 + SPREAD[0], **undirected) is KEEP


def test_the_less_bad_loser_does_not_clear_an_absolute_bar() -> None:
    assert verdict_of(1 + SPREAD[0], bars=(Bar("score", above=True, value=12.0),)) is KEEP
    assert verdict_of(1 + SPREAD[0], bars=(Bar("score", above=True, value=10.5),)) is LOCK
    assert verdict_of(1 + SPREAD[0], bars=(Bar("score", above=False, value=10.5),)) is KEEP


def test_the_recommendation_is_the_largest_gain_and_names_what_cannot_be_told_from_it() -> None:
    gains = {"small and sure": 0.5 + SPREAD[0] / 100, "large": 2 + SPREAD[1], "near": 1.9 + SPREAD[2]}
    judged = judge(a_comparison(gains))
    by_name = {each.variant: each for each in judged.variants}
    assert judged.recommended == "large"
    assert by_name["large"].indistinguishable_from == ("near",)
    assert by_name["near"].indistinguishable_from == ("large",)
    assert by_name["small and sure"].indistinguishable_from == ()


def test_two_identical_variants_are_locked_alike_and_named() -> None:
    judged = judge(a_comparison({"one": 1 + SPREAD[0], "two": 1 + SPREAD[0]}))
    assert [each.verdict for each in judged.variants] == [LOCK, LOCK]
    assert judged.recommended == "one"
    assert judged.variants[1].indistinguishable_from == ("one",)


def test_a_variant_like_the_baseline_is_inconclusive_and_said_to_be_the_same() -> None:
    judged = judge(a_comparison({"same": 0.0}))
    assert judged.variants[0].verdict is KEEP
    assert len(judged.variants[0].findings) == 1
    assert judged.variants[0].metrics[0].interval == (0.0, 0.0)


@pytest.mark.parametrize("options", [{}, {"smallest": 10.0}])
@pytest.mark.parametrize("gain", [0.5, -0.5])
def test_a_difference_that_is_the_same_in_every_block_is_one_measurement(gain: float, options: Any) -> None:
    judged = judge(a_comparison({"new": gain}, **options)).variants[0]
    assert judged.verdict is KEEP
    assert "one measurement" in judged.reason


def test_rounding_is_no_difference() -> None:
    assert judge(a_comparison({"same": 1e-13})).variants[0].metrics[0].delta == 0.0


def test_one_block_decides_nothing() -> None:
    judged = judge(a_comparison({"new": 5.0}, axes=assets_and_periods(1, 1)))
    assert not judged.possible
    assert judged.variants[0].verdict is KEEP
    assert judged.variants[0].metrics[0].delta == 5.0


def test_without_variants_there_is_nothing_to_judge() -> None:
    judged = judge(a_comparison({}))
    assert (judged.variants, judged.recommended) == ((), None)


def test_metrics_whose_meaning_changes_are_shown_with_the_reason() -> None:
    values = np.stack([np.full((5, 5), 0.5), np.full((5, 5), 0.9)])
    comparison = a_comparison(
        {"new": SPREAD[0]}, metrics={"f1": values}, higher={"f1": True}, incomparable={"f1": "own labels"}
    )
    f1 = judge(comparison).variants[0].metrics[1]
    assert (f1.role, f1.note) == (Role.NOT_COMPARABLE, "own labels")
    assert f1.delta == pytest.approx(0.4)


def test_a_lock_says_how_bad_one_more_period_would_have_to_be() -> None:
    gains = (1 + SPREAD[1])[None]
    method = choose(assets_and_periods())
    [worst] = undone_by(method, gains, np.array([0.05]))
    shape = gains.mean(axis=2) - gains.mean()
    longer = choose(assets_and_periods(5, 6))

    def p(mean: float) -> float:
        return float(p_above(longer.estimate(np.concatenate([gains, (shape + mean)[..., None]], axis=2)))[0])

    assert p(worst + 0.01) < 0.05 < p(worst - 0.01)
    judged = judge(a_comparison({"new": gains[0]})).variants[0]
    assert judged.undone_by == pytest.approx(worst)
    assert len(judged.findings) == 1


def test_a_visible_tail_of_losses_is_a_finding() -> None:
    losses = np.ones((5, 5)) + SPREAD[1] / 10
    losses[1, 1] = losses[3, 2] = -2.0
    skew, visible = skewness(np.stack([losses, -losses, SPREAD[1]]))
    assert visible.tolist() == [True, False, False]
    assert skew[0] == pytest.approx(-skew[1])
    assert any("skewness" in text for text in judge(a_comparison({"new": losses})).variants[0].findings)


def test_the_tests_of_folds_and_data_sets_lock_clear_gains() -> None:
    sets = (an_axis("dataset", 2), an_axis("fold", 5, AxisKind.FOLDS))
    judged = judge(a_comparison({"new": 3 + noise((1, 2, 5))[0] / 3, "not": noise((1, 2, 5), 2)[0]}, axes=sets))
    assert [each.verdict for each in judged.variants] == [LOCK, KEEP]
    assert judged.variants[0].undone_by is not None


def test_two_thousand_variants_are_ranked_and_corrected_together() -> None:
    judged = judge(a_comparison({f"v{at}": gain for at, gain in enumerate(0.5 + noise((2000, 5, 5)))}))
    assert sorted(each.rank for each in judged.variants) == list(range(1, 2001))
    assert max(each.metrics[0].p_corrected or 0.0 for each in judged.variants) == 1.0


def test_a_stricter_level_takes_a_lock_away_and_leaves_everything_else() -> None:
    comparison = a_comparison({"up": 0.6 + SPREAD[0], "down": -1 + SPREAD[1]})
    [usual, worse] = judge(comparison).variants
    p = usual.metrics[0].p_corrected
    assert p is not None and 0 < p < 0.05
    assert (usual.verdict, worse.verdict) == (LOCK, ABANDON)
    [strict, still] = judge(comparison, p / 2).variants
    assert (strict.verdict, still.verdict) == (KEEP, ABANDON)
    assert (strict.metrics, strict.rules[1].holds) == (usual.metrics, False)
    assert strict.rules[1].text.endswith(f"(Holm p < {p / 2:.2g})")


def test_a_lock_at_a_stricter_level_is_undone_by_a_smaller_loss() -> None:
    undone = [judge(a_comparison({"up": 1 + SPREAD[0]}), level).variants[0].undone_by for level in (0.05, 0.001)]
    assert undone[0] is not None and undone[1] is not None
    assert undone[0] < undone[1]
