"""Folds made up for tests: features that know a little of the labels, and bars that go where a test wants them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from scalable_finetune.calibration import Calibrated
from scalable_finetune.labels import Labels
from scalable_finetune.market import Bars
from scalable_finetune.search import Scored, Search, search
from scalable_finetune.training import Part, Training, uniqueness

HOUR = 3600


def a_part(random: np.random.Generator, events: int, features: int, classes: int, signal: float, first: int) -> Part:
    values = random.normal(size=(events, features)).astype(np.float32)
    truth = signal * (values[:, 0] + values[:, 1] * values[:, 2]) + random.normal(size=events)
    target = np.digitize(truth, [0.0] if classes == 2 else [-0.5, 0.5]).astype(np.int8)
    begin = first + 3 * np.arange(events)
    end = begin + random.integers(1, 10, events)
    return Part(values, target, uniqueness(begin, end), begin, end)


def a_training(
    events: int = 300, features: int = 8, classes: int = 2, signal: float = 0.5, seed: int = 0, tests: int = 200
) -> Training:
    random = np.random.default_rng(seed)
    train = a_part(random, events, features, classes, signal, 0)
    validation = a_part(random, tests, features, classes, signal, 4 * events)
    test = a_part(random, tests, features, classes, signal, 4 * (events + tests))
    return Training(train, validation, test, classes, 0.5, tuple(f"feature_{at}" for at in range(features)))


def shuffled(training: Training, seed: int) -> Training:
    """The same with labels that have nothing to do with the features."""
    random = np.random.default_rng(seed)

    def part(part: Part) -> Part:
        return replace(part, target=random.permutation(part.target))

    return replace(training, train=part(training.train), validation=part(training.validation), test=part(training.test))


def searched(training: Training, trials: int = 3, **changed: Any) -> Search:
    return search(training, **{"trials": trials, "seed": 0, "focal_loss": "off", "label_smoothing": 0.0, **changed})


def some_scores(events: int = 400, seed: int = 0) -> Scored:
    """Of a model that is too sure of itself."""
    random = np.random.default_rng(seed)
    odds = random.normal(size=events)
    bought = random.random(events) < 1 / (1 + np.exp(-0.4 * odds - 0.2))
    return Scored(1 / (1 + np.exp(-odds)), bought, random.uniform(0.5, 1.5, events), np.arange(events))


def some_bars(close: list[float], asset: str = "AAVEUSDC", first: int = 0) -> Bars:
    """Hourly bars that open where the last one closed."""
    ends = np.array(close)
    begins = np.concatenate((ends[:1], ends[:-1]))
    time = np.arange(first, first + len(ends), dtype=np.int64) * HOUR
    return Bars(asset, HOUR, time, begins, np.maximum(begins, ends), np.minimum(begins, ends), ends, np.ones(len(ends)))


def some_labels(
    bars: Bars, positions: list[tuple[int, int]], right: list[bool], side: list[int] | None = None
) -> Labels:
    """Positions as (event, end), left at the closing price of the bar they end in."""
    event, end = (np.array(column, dtype=np.int64) for column in zip(*positions, strict=True))
    gross = bars.close[end] / bars.open[event + 1] - 1
    sides = np.array(side or [1] * len(event), dtype=np.int8)
    barrier = np.full(len(event), 0.1)
    target = np.array(right, dtype=np.int8)
    return Labels(event, event + 1, end, target, gross, sides, barrier, barrier, np.ones(len(event), dtype=bool), 2)


def said(probability: list[float], event: list[int] | None = None, break_even: float = 0.5) -> Calibrated:
    """What a model said, at the ends of these bars."""
    at = np.arange(len(probability)) if event is None else np.array(event, dtype=np.int64)
    return Calibrated(np.array(probability), at, break_even)
