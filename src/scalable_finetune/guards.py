"""What the stages from bars to folds cannot do, found before anything starts: lengths of time and their contradictions.

Whether choices are known and numbers whole, ``scalable_finetune.settings`` has looked before. Every message names the
setting, what is wrong with it and what to write instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scalable.workloads import QuantityError, located, shown
from scalable_finetune.folds import LEAST_TRAINING_FOLDS, TRAINING_FOLDS, TUNING_SHARE, embargo_seconds
from scalable_finetune.market.bars import DAY, seconds_of
from scalable_finetune.market.generator import DAYS_PER_YEAR, STEP
from scalable_finetune.market.loading import SYNTHETIC

MOST_YEARS = 50.0  # of generated bars: 5 million


def check(configuration: Mapping[str, Any]) -> None:
    """Raise for what the stages from bars to folds cannot do."""
    found: list[QuantityError] = []
    for guard in (check_market, check_bars, check_barriers, check_folds):
        try:
            guard(configuration)
        except QuantityError as error:
            found.append(error)
    QuantityError.raise_all(found)


def check_market(configuration: Mapping[str, Any]) -> None:
    market = configuration["market"]
    if not isinstance(market, str) or (market != SYNTHETIC and not located(market).is_dir()):
        refuse("market", market, f"is neither {SYNTHETIC} nor a folder", "write synthetic, or a folder of <ASSET>.csv")
    check_number(configuration, "years", 0, MOST_YEARS)


def check_bars(configuration: Mapping[str, Any]) -> None:
    timeframe = seconds_of(configuration["timeframe"], "timeframe")
    if DAY % timeframe or (configuration["market"] == SYNTHETIC and timeframe % STEP):
        refuse(
            "timeframe",
            configuration["timeframe"],
            "is not a multiple of 5 minutes of which a whole number makes a day",
            "write e.g. 15m, 30m, 1h or 4h",
        )
    if seconds_of(configuration["horizon"], "horizon") < timeframe:
        refuse(
            "horizon",
            configuration["horizon"],
            f"is shorter than a bar of {configuration['timeframe']}",
            f"write {configuration['timeframe']} or more",
        )


def check_barriers(configuration: Mapping[str, Any]) -> None:
    for name in ("take_profit", "stop_loss"):
        check_number(configuration, name, 0, 100)


def check_folds(configuration: Mapping[str, Any]) -> None:
    """Whether all folds have room in the data, as far as its length is known, and their parts in the folds."""
    size = seconds_of(configuration["fold_size"], "fold_size")
    pause = embargo_seconds(configuration["embargo"])
    horizon = seconds_of(configuration["horizon"], "horizon")
    folds = configuration["folds"]
    tuning = TUNING_SHARE * LEAST_TRAINING_FOLDS * size
    if pause + horizon > tuning / 2:
        refuse(
            "embargo",
            configuration["embargo"],
            f"and a horizon of {configuration['horizon']} take more than half of the {tuning / DAY:.1f} d that the "
            f"first fold of {configuration['fold_size']} may have for tuning",
            "shorten them, or write a larger fold_size",
        )
    if configuration["market"] != SYNTHETIC or not isinstance(configuration["years"], int | float):
        return
    have = configuration["years"] * DAYS_PER_YEAR * DAY
    need = (folds + LEAST_TRAINING_FOLDS) * size
    if need > have:
        refuse(
            "fold_size",
            configuration["fold_size"],
            f"× {folds} folds and as much again to learn from are {need / DAY:.0f} d, but years: "
            f"{configuration['years']:g} has {have / DAY:.0f} d (up to {TRAINING_FOLDS} fold sizes are learnt from)",
            f"write fold_size: {have / DAY // (folds + LEAST_TRAINING_FOLDS):.0f}d, "
            f"folds: {max(1, int(have // size) - LEAST_TRAINING_FOLDS)}, "
            f"or years: {need / DAY / DAYS_PER_YEAR + 0.05:.1f}",
        )


def check_number(configuration: Mapping[str, Any], name: str, above: float, most: float) -> None:
    value = configuration[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not above < value <= most:
        refuse(name, value, f"is not a number above {above:g}, at most {most:g}", "write e.g. 1.0")


def refuse(name: str, value: object, why: str, remedy: str) -> None:
    raise QuantityError(f"{name}: {shown(value)} {why}", remedy, (name,))
