"""Walk-forward folds: a model is judged on a window of time and learns only from what had ended before it.

The last ``folds`` windows of length ``fold_size`` are the tests, in order. Before each lies a rolling window to learn
from, whose last part is for tuning. Between two parts nothing overlaps: a label is used only if it ends in the part its
event lies in (purge), and an embargo before the next part on top of that.

    learning ............................ | embargo | tuning ...... | embargo | test ..........
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from scalable.workloads import ScalableError, plural, stage
from scalable_finetune.labels import Labels
from scalable_finetune.market.bars import DAY, Bars, seconds_of

Indices = NDArray[np.int64]

TRAINING_FOLDS = 4  # the window to learn and tune from is up to 4 tests long: a year for 90 days
LEAST_TRAINING_FOLDS = 1  # a model that has seen less time than it is judged on says little
TUNING_SHARE = 0.2  # the last part of that window
LEAST_EVENTS = {"train": 100, "validation": 20, "test": 1}  # fewer are noise for a model, its tuning, its verdict


class FoldError(ScalableError, ValueError):
    """Folds that do not fit the data."""


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Positions in the labels, ascending, and the windows of time they come from."""

    train: Indices
    validation: Indices
    test: Indices
    train_begin: int
    """Seconds since 1970 UTC, as the others."""
    validation_begin: int
    test_begin: int
    test_end: int


@stage(reads=("fold", "folds", "fold_size", "embargo"), uses=("numpy",), keep=False)
def split(bars: Bars, labels: Labels, *, fold: int, folds: int, fold_size: str, embargo: str) -> Split:
    size, pause = seconds_of(fold_size, "fold_size"), embargo_seconds(embargo)
    if not 0 <= fold < folds:
        raise FoldError(f"fold {fold} is none of {plural(folds, 'fold')}; write 0 to {folds - 1}")
    first, last = int(bars.time[0]), int(bars.time[-1]) + bars.timeframe
    test_begin = last - (folds - fold) * size
    test_end = test_begin + size
    train_begin = max(first, test_begin - TRAINING_FOLDS * size)
    if test_begin - train_begin < LEAST_TRAINING_FOLDS * size:
        raise FoldError(
            f"{bars.asset} has {days(last - first)} of bars ({date(first)} to {date(last)}), but fold {fold} of "
            f"{folds} × {fold_size} begins {days(last - test_begin)} before their end and needs {fold_size} to "
            f"learn from before that; write folds: {max(1, (last - first) // size - LEAST_TRAINING_FOLDS)}, "
            f"a fold_size of {(last - first) // DAY // (folds + LEAST_TRAINING_FOLDS)}d, or bring more years"
        )
    validation_begin = test_begin - round(TUNING_SHARE * (test_begin - train_begin))
    begun = bars.time[labels.event]
    ended = bars.time[labels.end] + bars.timeframe

    def within(begin: int, end: int) -> NDArray[np.bool_]:
        return np.asarray((begun >= begin) & (ended <= end))

    parts = {
        "train": within(train_begin, validation_begin - pause),
        "validation": within(validation_begin, test_begin - pause) & labels.standard,
        "test": within(test_begin, test_end) & labels.standard,
    }
    for name, chosen in parts.items():
        if chosen.sum() < LEAST_EVENTS[name]:
            raise FoldError(
                f"{bars.asset} fold {fold} of {folds} × {fold_size}: {plural(int(chosen.sum()), 'event')} in {name}, "
                f"{LEAST_EVENTS[name]} are the least; write a larger fold_size, a shorter horizon or embargo, "
                "or a cusum_training_mode with more events"
            )
    train, validation, test = (np.flatnonzero(chosen) for chosen in parts.values())
    return Split(train, validation, test, train_begin, validation_begin, test_begin, test_end)


def embargo_seconds(text: object) -> int:
    """``0`` is no embargo."""
    return 0 if text in (0, "0", "0d", "0h", "0s") else seconds_of(text, "embargo")


def date(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


def days(seconds: int) -> str:
    return f"{seconds / DAY:.0f} d"
