"""Walk-forward folds: what is learnt from had ended before what is judged on began."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalable_finetune.events import events
from scalable_finetune.folds import TRAINING_FOLDS, FoldError, Split, split
from scalable_finetune.labels import Labels, labels
from scalable_finetune.market.bars import Bars
from tests.helpers.finetune.data.builders import DAY, HOUR, SETTINGS, market, quiet

CHOICES = ("classification_mode", "take_profit", "stop_loss", "horizon")


def made(bars: Bars, mode: str = "events", **options: Any) -> Labels:
    wanted = {name: SETTINGS[name] for name in CHOICES} | options
    return labels(bars, events(bars, cusum_training_mode=mode), **wanted)


def by_chance(count: int, longest: int, seed: int) -> Labels:
    """Labels anywhere, of any length, some of them not of the ordinary filter."""
    draws = np.random.default_rng(seed)
    event = np.sort(draws.choice(count - longest - 1, size=count // 2, replace=False))
    end = event + 1 + draws.integers(0, longest, len(event))
    some = np.ones(len(event))
    return Labels(
        *(event, event + 1, end, some.astype(np.int8), some, some.astype(np.int8), some, some),
        standard=draws.random(len(event)) < 0.7,
        classes=2,
    )


@settings(max_examples=60)
@given(
    folds=st.integers(1, 6),
    size=st.integers(10, 60),
    embargo=st.integers(0, 40),
    longest=st.integers(1, 40),
    seed=st.integers(0, 10**6),
    data=st.data(),
)
def test_no_label_of_one_part_touches_the_time_of_another_nor_its_embargo(
    folds: int, size: int, embargo: int, longest: int, seed: int, data: st.DataObject
) -> None:
    bars = quiet(DAY // HOUR * size * (folds + 1 + seed % 4))
    found = by_chance(len(bars), longest, seed)
    fold = data.draw(st.integers(0, folds - 1))
    try:
        parts = split(
            bars, found, fold=fold, folds=folds, fold_size=f"{size}d", embargo=f"{embargo}h" if embargo else "0"
        )
    except FoldError as error:
        assert "are the least" in str(error)
        return
    assert_apart(bars, found, parts, embargo * HOUR)


def assert_apart(bars: Bars, found: Labels, parts: Split, embargo: int) -> None:
    begun, ended = bars.time[found.event], bars.time[found.end] + bars.timeframe
    assert ended[parts.train].max() <= parts.validation_begin - embargo
    assert begun[parts.validation].min() >= parts.validation_begin
    assert ended[parts.validation].max() <= parts.test_begin - embargo
    assert begun[parts.test].min() >= parts.test_begin
    assert ended[parts.test].max() <= parts.test_end
    assert begun[parts.train].min() >= parts.train_begin
    assert found.standard[parts.validation].all()
    assert found.standard[parts.test].all()
    left_out = np.setdiff1d(np.arange(len(found)), parts.train)
    kept_back = (begun >= parts.train_begin) & (ended <= parts.validation_begin - embargo)
    assert not kept_back[left_out].any()  # and nothing is left out that could be learnt from


def test_tests_follow_each_other_up_to_the_end_of_the_data() -> None:
    bars = market(years=2.0)
    found = made(bars)
    parts = [split(bars, found, fold=fold, folds=5, fold_size="90d", embargo="1d") for fold in range(5)]
    assert parts[-1].test_end == bars.time[-1] + bars.timeframe
    assert [one.test_end for one in parts[:-1]] == [one.test_begin for one in parts[1:]]
    assert all(one.test_end - one.test_begin == 90 * DAY for one in parts)
    assert all(one.test_begin - one.train_begin <= TRAINING_FOLDS * 90 * DAY for one in parts)


def test_the_default_training_sets_have_between_1500_and_3500_events() -> None:
    bars = market(years=3.0)
    found = made(bars)
    for fold in range(5):
        parts = split(bars, found, fold=fold, folds=5, fold_size="90d", embargo="1d")
        assert 1500 < len(parts.train) + len(parts.validation) < 3500
        assert len(parts.validation) > 300
        assert len(parts.test) > 300
        assert_apart(bars, found, parts, DAY)


def test_modes_train_on_more_events_and_are_judged_on_the_same() -> None:
    bars = market(years=1.5)
    tested = {}
    trained = {}
    for mode in ("events", "relaxed", "disabled"):
        found = made(bars, mode)
        parts = split(bars, found, fold=2, folds=5, fold_size="60d", embargo="1d")
        tested[mode], trained[mode] = found.event[parts.test].tolist(), len(parts.train)
    assert tested["events"] == tested["relaxed"] == tested["disabled"]
    assert trained["events"] * 1.7 < trained["relaxed"] < trained["disabled"]


def test_folds_that_do_not_fit_the_data_say_by_how_much_and_what_to_write() -> None:
    bars = market(years=1.0)
    expected = (
        r"AAVEUSDC has 365 d of bars \(2022-01-01 to 2023-01-01\), but fold 0 of 5 × 90d begins 450 d before their end "
        r"and needs 90d to learn from before that; write folds: 3, a fold_size of 60d, or bring more years"
    )
    with pytest.raises(FoldError, match=expected):
        split(bars, made(bars), fold=0, folds=5, fold_size="90d", embargo="1d")
    for fold in range(5):
        split(bars, made(bars), fold=fold, folds=5, fold_size="60d", embargo="1d")
    for fold in range(3):
        split(bars, made(bars), fold=fold, folds=3, fold_size="90d", embargo="1d")


def test_too_few_events_are_said_with_their_number() -> None:
    bars = market(years=1.0)
    found = made(bars)
    with pytest.raises(FoldError, match=r"fold 0 of 5 × 60d: 0 events in validation, 20 are the least"):
        none = replace(found, standard=np.zeros(len(found), dtype=np.bool_))
        split(bars, none, fold=0, folds=5, fold_size="60d", embargo="1d")


def test_a_fold_that_there_is_not_is_refused() -> None:
    with pytest.raises(FoldError, match="fold 5 is none of 5 folds; write 0 to 4"):
        split(market(), made(market()), fold=5, folds=5, fold_size="10d", embargo="0")
