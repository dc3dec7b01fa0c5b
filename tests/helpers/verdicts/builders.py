"""Comparisons with made-up measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scalable.axes import AxisKind
from scalable.verdicts.tables import Axis, Comparison, Floats


def an_axis(name: str, count: int, kind: AxisKind = AxisKind.SAMPLE) -> Axis:
    return Axis(name, kind, tuple(range(count)))


def assets_and_periods(assets: int = 5, periods: int = 5) -> tuple[Axis, ...]:
    return an_axis("asset", assets), an_axis("fold", periods, AxisKind.PERIODS)


def noise(shape: tuple[int, ...], seed: int = 1) -> Floats:
    """Numbers that look drawn at random, with mean 0 in every table."""
    values = np.random.default_rng(seed).standard_normal(shape)
    return np.asarray(values - values.mean(axis=tuple(range(1, len(shape))), keepdims=True))


def a_comparison(
    gains: Mapping[str, Floats | float], axes: tuple[Axis, ...] | None = None, **options: Any
) -> Comparison:
    """Variants that differ from the baseline's score of 10 by their gains; further metrics by ``metrics``."""
    axes = assets_and_periods() if axes is None else axes
    lengths = tuple(len(axis) for axis in axes)
    baseline = np.full(lengths, 10.0)
    score = np.stack([baseline, *(baseline + np.broadcast_to(gain, lengths) for gain in gains.values())])
    metrics = {"score": score} | options.pop("metrics", {})
    higher = {"score": True} | options.pop("higher", {})
    absent = options.pop("absent", np.zeros(score.shape, dtype=np.bool_))
    return Comparison(axes, "none", tuple(gains), metrics, options.pop("primary", "score"), higher, absent, **options)
