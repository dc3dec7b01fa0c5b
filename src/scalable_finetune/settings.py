"""The configuration of the trading workload: every setting with its default, and what contradicts itself.

``check`` looks at a whole configuration before anything starts. A setting whose branch is off does not matter: what it
says is not held against the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from scalable.workloads import UsageError, shown, undefined
from scalable_finetune.catalogue import FACTORS, FULL_FEATURES
from scalable_finetune.guards import check as check_data

DEFAULTS: dict[str, Any] = {
    **{name: factor.variants[0] for name, factor in FACTORS.items()},
    "market": "synthetic",  # or a folder of files, one per asset
    "years": 3.0,
    "market_seed": 0,
    "take_profit": 0.75,  # in units of the volatility at the event
    "stop_loss": 0.75,
    "horizon": "12h",
    "embargo": "1d",
    "folds": 5,
    "fold": 0,
    "trials": 30,
    "seed": 0,
    "cost_bps": 10.0,
    "model": "xgboost",  # the family that Discovery screens
    "rebalance": "1d",  # how often WFRB's portfolio is put together anew
    "top": 3,  # and of how many assets
}
OF_OTHERS = frozenset({"model", "rebalance", "top"})
"""What Discovery and WFRB read and the trading workload does not."""
MODELS = ("xgboost", "logistic", "random_forest", "extra_trees")
"""The families Discovery screens."""
LARGEST_GAMMA = 5.0  # of focal loss; over it hardly an event counts
MOST_SMOOTHING = 0.5  # beyond, a label says less than that it might be anything
ALL_OF_IT_BPS = 10_000.0  # a cost of everything that is traded


class SettingError(UsageError, ValueError):
    """A configuration that cannot work; the message names the setting and what to write instead."""


def check(configuration: Mapping[str, Any]) -> None:
    """Refuse what is unknown, out of range or contradicts itself. Settings that are not given have their defaults."""
    for name in configuration:
        if name not in DEFAULTS and name != "asset":
            raise SettingError(undefined("setting", str(name), DEFAULTS))
    settings = {**DEFAULTS, **configuration}
    for name, factor in FACTORS.items():
        if not factor.free:
            known(name, settings[name], factor.variants)
    known("model", settings["model"], MODELS)
    numbers(settings)
    contradictions(settings)
    check_data(settings)


def known(name: str, value: object, variants: tuple[object, ...]) -> None:
    if not any(type(value) is type(variant) and value == variant for variant in variants):
        raise SettingError(f"{name}: {shown(value)} is not known; choose one of {', '.join(map(str, variants))}")


def numbers(settings: Mapping[str, Any]) -> None:
    if settings["n_features"] != "full":
        whole("n_features", settings["n_features"], 1, FULL_FEATURES, f"{FULL_FEATURES} or full for all of them")
    for name, least in (("trials", 1), ("seed", 0), ("market_seed", 0), ("folds", 1), ("fold", 0), ("top", 1)):
        whole(name, settings[name], least)
    between("cost_bps", settings["cost_bps"], 0.0, ALL_OF_IT_BPS, "10 for a tenth of a percent per side")
    between("label_smoothing", settings["label_smoothing"], 0.0, MOST_SMOOTHING, "0.05")
    if settings["focal_loss"] != "off":
        between("focal_loss", settings["focal_loss"], 0.0, LARGEST_GAMMA, "off or 2.0")


def whole(name: str, value: object, least: int, most: int | None = None, example: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        top = f" … {most}" if most is not None else " or more"
        raise SettingError(f"{name}: {shown(value)} is not a whole number of {least}{top}; write {example or least}")


def between(name: str, value: object, least: float, under: float, example: str) -> None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and least <= value < under
    if not fits:
        raise SettingError(f"{name}: {shown(value)} is not a number from {least:g} to under {under:g}; write {example}")


def contradictions(settings: Mapping[str, Any]) -> None:
    focal, smoothing = settings["focal_loss"] != "off", settings["label_smoothing"] > 0
    if focal and settings["focal_loss"] == 0:
        raise SettingError("focal_loss: 0 is plain cross entropy under another name; write off")
    if focal and smoothing:
        raise SettingError(
            f"focal_loss: {settings['focal_loss']} sharpens what label_smoothing: {settings['label_smoothing']} blurs; "
            "write focal_loss: off or label_smoothing: 0.0"
        )
    if settings["classification_mode"] == "meta" and settings["cusum_training_mode"] == "disabled":
        raise SettingError(
            "classification_mode: meta judges the side that an event suggests, and cusum_training_mode: disabled "
            "leaves no events but every bar; write cusum_training_mode: events or relaxed"
        )
    if settings["fold"] >= settings["folds"]:
        raise SettingError(f"fold: {settings['fold']} is not one of {settings['folds']} folds; they count from 0")
