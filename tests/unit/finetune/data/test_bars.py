"""Bars of a longer step are made of whole, known bars only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scalable.errors import QuantityError
from scalable_finetune.market import bars, btc_bars, resample
from scalable_finetune.market.bars import seconds_of, span
from tests.helpers.finetune.data.builders import HOUR, MONDAY, by_hand, market, quiet

SOURCE: dict[str, Any] = {"market": "synthetic", "years": 0.1, "market_seed": 0, "timeframe": "1h"}


def test_a_longer_bar_has_first_open_last_close_extremes_and_all_volume() -> None:
    short = by_hand((10, 12, 9, 11), (11, 15, 10, 14), (14, 14, 8, 9), (9, 10, 9, 10), timeframe=900)
    longer = resample(short, HOUR)
    found = [each.tolist() for each in (longer.open, longer.high, longer.low, longer.close, longer.volume)]
    assert found == [[10], [15], [8], [10], [4]]
    assert longer.timeframe == HOUR
    assert longer.time.tolist() == [MONDAY]


def test_a_bar_that_has_not_ended_or_whose_beginning_is_not_there_is_left_out() -> None:
    short = quiet(24, timeframe=900)
    assert resample(span(short, 1, 23), HOUR).time.tolist() == (MONDAY + HOUR * np.arange(1, 5)).tolist()
    assert len(resample(span(short, 1, 4), HOUR)) == 0


def test_missing_bars_leave_what_is_there() -> None:
    short = quiet(12, timeframe=900)
    kept = np.asarray([0, 1, 2, 8, 9, 10, 11])  # the second hour is missing altogether
    gappy = replace(
        short, **{name: getattr(short, name)[kept] for name in ("time", "open", "high", "low", "close", "volume")}
    )
    longer = resample(gappy, HOUR)
    assert longer.time.tolist() == [MONDAY, MONDAY + 2 * HOUR]
    assert longer.volume.tolist() == [3, 4]


def test_a_step_that_the_bars_do_not_divide_is_refused() -> None:
    with pytest.raises(QuantityError, match=r"bars of 30 min cannot be made of HAND's bars of 1 h; write a multiple"):
        resample(quiet(4), 1800)


@pytest.mark.parametrize("text", ["soon", -1, "0.5s", 0])
def test_what_is_no_length_of_time_is_refused_with_its_place(text: object) -> None:
    with pytest.raises(QuantityError, match=r"^fold_size: "):
        seconds_of(text, "fold_size")


def test_the_stage_gives_an_assets_bars_at_its_timeframe() -> None:
    hourly = bars(asset="AAVEUSDC", **SOURCE)
    assert hourly.timeframe == HOUR
    assert hourly.close.tolist() == market(years=0.1).close.tolist()
    assert btc_bars(**SOURCE).asset == "BTCUSDC"
