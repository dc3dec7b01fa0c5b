"""What a model of one fold learns from, is tuned on and is judged by: features, labels and weights of its three parts.

``n_features`` counts columns of the asset's own features, whose order is fixed; what the overlay of a second asset
adds comes on top, so that the two factors do not disturb each other. Labels that overlap in time tell in part the same
story, so an event weighs as much as the share of its time that is its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalable.workloads import stage
from scalable_finetune.catalogue import FULL_FEATURES

if TYPE_CHECKING:
    from scalable_finetune.features import Features
    from scalable_finetune.folds import Split
    from scalable_finetune.labels import Labels

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Part:
    """Events of one part of a fold, in order of time."""

    features: NDArray[np.float32]
    target: NDArray[np.int8]
    """0 … classes - 1; the last class is BUY."""
    weight: Floats
    """The uniqueness of the event's label in time; 1 on average."""
    begin: Indices
    end: Indices
    """The first and the last bar the label looks at."""

    def __len__(self) -> int:
        return len(self.target)

    def only(self, kept: NDArray[Any]) -> Part:
        """Of some events: their indices or a mask."""
        return Part(self.features[kept], self.target[kept], self.weight[kept], self.begin[kept], self.end[kept])


@dataclass(frozen=True, slots=True)
class Training:
    train: Part
    validation: Part
    test: Part
    classes: int
    """2 or 3."""
    break_even: float
    """The probability of BUY from which on a trade is expected to gain, before costs; from the training part."""
    names: tuple[str, ...]
    """Of the features."""


@stage(reads=("n_features",), keep=False)
def training(overlay: Features, labels: Labels, split: Split, *, n_features: int | str) -> Training:
    wanted = FULL_FEATURES if n_features == "full" else int(n_features)
    columns = np.r_[:wanted, FULL_FEATURES : len(overlay.names)]

    def part(chosen: Indices) -> Part:
        begin, end = labels.event[chosen].astype(np.int64), labels.end[chosen].astype(np.int64)
        rows = np.ascontiguousarray(overlay.values[begin][:, columns], dtype=np.float32)
        return Part(rows, labels.target[chosen], uniqueness(begin, end), begin, end)

    return Training(
        train=part(split.train),
        validation=part(split.validation),
        test=part(split.test),
        classes=labels.classes,
        break_even=break_even(labels.target[split.train] == labels.classes - 1, labels.gross[split.train]),
        names=tuple(overlay.names[column] for column in columns),
    )


def uniqueness(begin: Indices, end: Indices) -> Floats:
    """How much of a label's time it does not share with others: the mean of 1 / (labels at that bar), 1 on average."""
    if not len(begin):
        return np.ones(0)
    first, last = int(begin.min()), int(end.max())
    steps = np.zeros(last - first + 2)
    np.add.at(steps, begin - first, 1.0)
    np.add.at(steps, end - first + 1, -1.0)
    at_once = np.maximum(np.cumsum(steps)[:-1], 1.0)
    total = np.concatenate(([0.0], np.cumsum(1 / at_once)))
    own = (total[end - first + 1] - total[begin - first]) / (end - begin + 1)
    return np.asarray(own / own.mean())


def break_even(bought: NDArray[np.bool_], gross: Floats) -> float:
    """Where p · (mean gain of BUY) + (1 − p) · (mean gain of the rest) is nothing.

    One half where the labels do not tell: one kind is missing, or BUY does not gain and the rest does not lose.
    """
    if bought.all() or not bought.any():
        return 0.5
    gain, rest = float(gross[bought].mean()), float(gross[~bought].mean())
    return -rest / (gain - rest) if gain > 0 > rest else 0.5
