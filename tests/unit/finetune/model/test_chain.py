"""The whole way from bars to rows: every variant gives a row, and a market without memory gives no edge."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import isfinite
from typing import Any

import numpy as np
import pytest

from scalable_finetune.catalogue import FACTORS
from scalable_finetune.events import events
from scalable_finetune.features import Features, features
from scalable_finetune.folds import split
from scalable_finetune.labels import labels
from scalable_finetune.market import Bars, resample
from scalable_finetune.search import search
from scalable_finetune.settings import DEFAULTS, check
from scalable_finetune.training import training
from scalable_finetune.workload import WORKLOAD

SMALL = {"asset": "AAVEUSDC", "years": 1.2, "folds": 2, "fold_size": "60d", "trials": 1, "n_features": 30}
FROM_LABELS_ON = ("classification_mode", "cleanlab", "focal_loss", "label_smoothing", "n_features", "btc_features")
SEEDS = range(8)
FIVE_MINUTES, HOURS = 300, 24 * 220


@cache
def known(name: str, given: tuple[Any, ...]) -> Any:
    """A stage's result; for what many cells share."""
    stage = WORKLOAD.by_name[name]
    configuration = dict(given)
    if stage.left_out(configuration):
        return of(stage.needs[0], configuration)
    inputs = [of(need, configuration) if wanted else None for need, wanted in stage.needed(configuration).items()]
    return stage(*inputs, **{name: configuration[name] for name in stage.reads})


def of(name: str, configuration: dict[str, Any]) -> Any:
    matters = reads_of(name)
    return known(name, tuple((key, value) for key, value in sorted(configuration.items()) if key in matters))


@cache
def reads_of(name: str) -> frozenset[str]:
    """All that decides a stage's result, its inputs' included."""
    stage = WORKLOAD.by_name[name]
    own = {*stage.reads, *stage.unless, *(key for key, _ in stage.only_if.values())}
    return frozenset(own.union(*(reads_of(need) for need in stage.needs)))


def row_of(**changed: Any) -> dict[str, float]:
    configuration = {**DEFAULTS, **SMALL, **changed}
    check(configuration)
    found: dict[str, float] = of("row", configuration)
    return found


@pytest.mark.parametrize(
    ("factor", "variant"), [(name, each) for name in FROM_LABELS_ON for each in FACTORS[name].variants]
)
def test_every_variant_gives_a_row_of_finite_numbers(factor: str, variant: object) -> None:
    row = row_of(**{factor: variant})
    assert all(isfinite(value) for value in row.values())
    assert row["trades"] > 0


@pytest.mark.parametrize("factor", FROM_LABELS_ON)
def test_every_variant_of_a_factor_gives_another_row(factor: str) -> None:
    rows = [tuple(row_of(**{factor: each}).values()) for each in FACTORS[factor].variants]
    assert len(set(rows)) == len(rows)


def test_the_shipped_sweep_has_trades_enough_and_another_set_of_them_for_each_calibration() -> None:
    for fold in range(DEFAULTS["folds"]):
        shipped = {name: DEFAULTS[name] for name in ("years", "folds", "fold_size", "n_features")}
        rows = [row_of(**shipped, fold=fold, calibration=each) for each in FACTORS["calibration"].variants]
        assert min(row["trades"] for row in rows) >= 50
        assert len({(row["trades"], row["total_return"]) for row in rows}) == 3


def test_a_market_without_memory_gives_no_edge_and_one_look_ahead_would_be_seen() -> None:
    """What a model says must not go with what is gained, within three standard errors over seeds; with features that
    lie one bar in the future it does by far, so that the test would notice."""
    honest = np.array([foresight(seed, ahead=0) for seed in SEEDS])
    cheating = np.array([foresight(seed, ahead=1) for seed in SEEDS[:3]])
    error = honest.std(ddof=1) / np.sqrt(len(honest))
    assert abs(honest.mean()) < 3 * error
    assert cheating.mean() > 5 * error


def foresight(seed: int, ahead: int) -> float:
    """The correlation of probabilities and gains on the test part, for a model searched on a random walk."""
    bars = random_walk(seed)
    given = features(bars)
    seen = Features(given.names, np.roll(given.values, -ahead, axis=0))
    chosen = events(bars, cusum_training_mode="events")
    labelled = labels(bars, chosen, classification_mode="binary", take_profit=0.5, stop_loss=0.5, horizon="12h")
    parts = split(bars, labelled, fold=0, folds=1, fold_size="60d", embargo="1d")
    fold = training(seen, labelled, parts, n_features=30)
    found = search(fold, trials=1, seed=seed, focal_loss="off", label_smoothing=0.0)
    if np.ptp(found.test.probability) == 0:  # it found nothing at all
        return 0.0
    return float(np.corrcoef(found.test.probability, labelled.gross[parts.test])[0, 1])


def random_walk(seed: int) -> Bars:
    """Hours made of five-minute steps that know nothing of each other."""
    random = np.random.default_rng(seed)
    close = 100 * np.exp(np.cumsum(0.003 * random.normal(size=12 * HOURS)))
    begin = np.concatenate(([100.0], close[:-1]))
    time = np.arange(len(close), dtype=np.int64) * FIVE_MINUTES
    high, low = np.maximum(begin, close), np.minimum(begin, close)
    bars = Bars("WALK", FIVE_MINUTES, time, begin, high, low, close, random.lognormal(size=len(close)))
    return replace(resample(bars, 3600), asset="WALK")
