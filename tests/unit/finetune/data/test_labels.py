"""What becomes of a position, on bars written by hand: barriers at 2 % of 100, three bars of patience."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scalable.errors import QuantityError
from scalable_finetune.events import events
from scalable_finetune.labels import Labels, labels
from scalable_finetune.market.bars import Bars, span
from tests.helpers.finetune.data.builders import SETTINGS, by_hand, events_at, market, quiet

STILL = (100.0, 100.0, 100.0, 100.0)
BARRIER = 1 / np.sqrt(3)  # 2 % an hour is 2 % · √3 in three hours


def labelled(bars: Bars, *at: int, mode: str = "binary", take: float = BARRIER, stop: float = BARRIER) -> Labels:
    return labels(bars, events_at(*at), classification_mode=mode, take_profit=take, stop_loss=stop, horizon="3h")


def outcome(*after: tuple[float, float, float, float], mode: str = "binary", **options: Any) -> tuple[Any, ...]:
    """Class, bars held and return of a position after an event at the first of two still bars."""
    rows = (STILL, *after, *[after[-1]] * (4 - len(after)))
    found = labelled(by_hand(*rows), 0, mode=mode, **options)
    return int(found.target[0]), int(found.end[0]), float(found.gross[0])


def test_the_barriers_are_multiples_of_the_volatility_over_the_horizon() -> None:
    found = labelled(by_hand(*[STILL] * 5), 0, take=3 * BARRIER)
    assert found.take.tolist() == pytest.approx([0.06])
    assert found.stop.tolist() == pytest.approx([0.02])


def test_entry_is_at_the_open_of_the_next_bar_and_not_at_the_close_of_the_event() -> None:
    assert outcome((104.0, 106.2, 104.0, 105.0))[2] == pytest.approx(0.02)  # 2 % above 104, not above 100
    assert outcome((104.0, 105.0, 104.0, 105.0), STILL)[0] == 0


def test_take_profit_touched_by_a_high_is_buy_at_the_barrier() -> None:
    assert outcome(STILL, (100.0, 103.0, 99.0, 99.0)) == (1, 2, pytest.approx(0.02))


def test_stop_touched_by_a_low_is_not_buy_at_the_barrier() -> None:
    assert outcome(STILL, (100.0, 101.0, 97.0, 101.0)) == (0, 2, pytest.approx(-0.02))


def test_when_one_bar_touches_both_the_stop_comes_first() -> None:
    assert outcome((100.0, 103.0, 97.0, 100.0)) == (0, 1, pytest.approx(-0.02))


def test_a_bar_that_opens_beyond_the_stop_is_left_at_its_open() -> None:
    assert outcome(STILL, (95.0, 96.0, 94.0, 96.0)) == (0, 2, pytest.approx(-0.05))


def test_a_bar_that_opens_beyond_the_take_profit_is_sold_at_its_open_whatever_follows() -> None:
    assert outcome(STILL, (105.0, 106.0, 90.0, 91.0)) == (1, 2, pytest.approx(0.05))


def test_what_touches_neither_ends_at_the_last_close_and_is_not_buy() -> None:
    assert outcome(STILL, STILL, (100.0, 101.0, 100.0, 101.0)) == (0, 3, pytest.approx(0.01))


def test_ternary_tells_down_flat_and_up_apart() -> None:
    assert outcome((100.0, 100.0, 97.0, 97.0), mode="ternary")[0] == 0
    assert outcome(STILL, mode="ternary")[0] == 1
    assert outcome((100.0, 103.0, 100.0, 103.0), mode="ternary")[0] == 2


def test_classes_are_counted_and_the_first_bar_of_a_position_is_the_one_after_the_event() -> None:
    found = labelled(market(), *range(300, 320))
    assert (found.entry == found.event + 1).all()
    assert (found.end >= found.entry).all()
    assert (found.end <= found.event + 3).all()
    assert [labelled(market(), 300, mode=mode).classes for mode in ("binary", "ternary", "meta")] == [2, 3, 2]


def test_meta_follows_the_last_day_and_asks_whether_that_pays() -> None:
    rise = [(100.0 + n, 100.5 + n, 99.5 + n, 100.0 + n) for n in range(30)]
    fall = [(130.0 - n, 130.5 - n, 129.5 - n, 130.0 - n) for n in range(30)]
    up, down = labelled(by_hand(*rise), 25, mode="meta"), labelled(by_hand(*fall), 25, mode="meta")
    assert (up.side.tolist(), up.target.tolist()) == ([1], [1])
    assert (down.side.tolist(), down.target.tolist()) == ([-1], [1])
    assert down.gross[0] == pytest.approx(0.02)
    turned = labelled(by_hand(*rise[:26], *[(90.0, 91.0, 89.0, 90.0)] * 4), 24, mode="meta")
    assert turned.target.tolist() == [0]
    assert turned.gross[0] < -0.02  # the fall leapt over the stop


def test_a_position_against_the_price_stops_above_and_takes_below() -> None:
    fall = [(130.0 - n, 130.0 - n, 130.0 - n, 130.0 - n) for n in range(26)]
    both = (104.0, 110.0, 98.0, 104.0)
    found = labelled(by_hand(*fall, both, both, both), 25, mode="meta")
    assert found.gross.tolist() == pytest.approx([-0.02])


def test_events_whose_horizon_goes_beyond_the_data_are_left_out() -> None:
    assert labelled(by_hand(*[STILL] * 10), 5, 6, 7, 8, 9).event.tolist() == [5, 6]


def test_a_price_that_does_not_move_has_no_labels() -> None:
    found = labels(
        quiet(10),
        events_at(1, volatility=0.0),
        classification_mode="binary",
        take_profit=1.0,
        stop_loss=1.0,
        horizon="3h",
    )
    assert len(found) == 0


@pytest.mark.parametrize("mode", ["binary", "ternary", "meta"])
def test_without_the_future_labels_that_had_ended_are_the_same(mode: str) -> None:
    options = {name: SETTINGS[name] for name in ("take_profit", "stop_loss", "horizon")}

    def made(bars: Bars) -> Labels:
        return labels(bars, events(bars, cusum_training_mode="events"), classification_mode=mode, **options)

    whole, known = made(market()), made(span(market(), 0, 1500))
    count = len(known)
    assert count > 100
    assert whole.event[count] + 12 >= 1500
    for name in ("event", "entry", "end", "target", "gross", "side", "take", "stop", "standard"):
        assert getattr(known, name).tolist() == getattr(whole, name)[:count].tolist(), name


def test_an_unknown_mode_is_refused_with_those_there_are() -> None:
    with pytest.raises(QuantityError, match="write binary, ternary, meta"):
        labelled(market(), 300, mode="four")
