"""Which bars are events."""

from __future__ import annotations

import numpy as np
import pytest

from scalable.errors import QuantityError
from scalable_finetune.events import Events, crossings, daily_volatility, events
from scalable_finetune.market.bars import span
from tests.helpers.finetune.data.builders import market, quiet


def chosen(mode: str = "events", end: int | None = None) -> Events:
    return events(span(market(), 0, len(market()) if end is None else end), cusum_training_mode=mode)


def test_a_bar_is_an_event_when_moves_have_added_up_and_the_sum_begins_anew() -> None:
    moves = np.asarray([0.0, 1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 0.0])
    assert crossings(moves, np.full(9, 1.5), first=1).tolist() == [2, 4, 6]


def test_a_sum_does_not_go_below_nothing_so_that_a_turn_counts_at_once() -> None:
    moves = np.asarray([-1.4, 1.0, 1.0])
    assert crossings(moves, np.full(3, 1.5), first=0).tolist() == [2]


def test_a_quiet_price_has_no_events() -> None:
    assert len(events(quiet(1000), cusum_training_mode="events").index) == 0


def test_relaxed_has_twice_the_events_or_more_and_disabled_all_bars() -> None:
    ordinary, relaxed, disabled = (chosen(mode) for mode in ("events", "relaxed", "disabled"))
    assert ordinary.standard.all()
    assert len(relaxed.index) > 1.7 * len(ordinary.index)
    assert disabled.index.tolist() == list(range(240, len(market())))


@pytest.mark.parametrize("mode", ["relaxed", "disabled"])
def test_the_ordinary_events_are_among_those_of_every_mode_and_marked(mode: str) -> None:
    found = chosen(mode)
    assert found.index[found.standard].tolist() == chosen().index.tolist()
    assert len(np.unique(found.index)) == len(found.index)


@pytest.mark.parametrize("mode", ["events", "relaxed", "disabled"])
def test_without_the_future_past_events_are_the_same(mode: str) -> None:
    whole, known = chosen(mode), chosen(mode, end=1234)
    count = len(known.index)
    assert known.index.tolist() == whole.index[whole.index < 1234].tolist()
    assert known.volatility.tolist() == whole.volatility[:count].tolist()
    assert known.standard.tolist() == whole.standard[:count].tolist()


def test_about_six_events_a_day_at_an_hour_and_as_many_days_whatever_the_timeframe() -> None:
    per_day = {
        step: len(events(market(years=0.5, timeframe=step), cusum_training_mode="events").index) / 172
        for step in (900, 3600)
    }
    assert 5 < per_day[3600] < 8
    assert per_day[900] < 2 * per_day[3600]


def test_volatility_is_that_of_a_day() -> None:
    moves = np.random.default_rng(1).normal(0, 0.01, 5000)
    assert np.median(daily_volatility(moves, 3600)) == pytest.approx(0.01 * np.sqrt(24), rel=0.05)


def test_an_unknown_mode_is_refused_with_those_there_are() -> None:
    with pytest.raises(QuantityError, match="'on' is not known; write events, relaxed, disabled"):
        chosen("on")
