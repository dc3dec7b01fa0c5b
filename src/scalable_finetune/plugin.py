"""The trading workload as a plug-in of ``scalable``: the short form of its sweeps, and what it declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from scalable.workloads import (
    Amount,
    AxisKind,
    Checked,
    Count,
    CountOrNone,
    General,
    OverAxis,
    QuantityError,
    Section,
    Text,
    Variant,
    WorkloadPlugin,
    not_defined,
    once,
    parse_over,
    shown,
)
from scalable_finetune.catalogue import (
    COST,
    COSTS_BPS,
    CURVES,
    EVIDENCE,
    FACTORS,
    FOLDS,
    FULL_FEATURES,
    GROUPS,
    GUARDS,
    INCOMPARABLE,
    METRICS,
    PACKAGES,
    PRIMARY,
    PROFILES,
    TRIALS,
)


class TradingForm(Section):
    """The short form of a sweep: one factor over assets × folds, averaged over trading costs.

    Functions of one's own can be written so, too: their folds are those of a cross-validation and they have no costs.
    """

    factor: Text | None = None
    """A factor of the catalogue, or a name of your own with its variants."""
    variants: list[Variant] | None = None
    """Which variants; all of the factor's when not given."""
    assets: str | tuple[str, ...] | None = None
    """The name of a group, or a list of assets."""
    folds: Count | None = None
    costs_bps: list[Amount] | None = Field(default=None, min_length=1)
    """Trading costs in basis points; each is a row of its own on the same trades. 10, 20 and 30 when not given."""
    power: Literal["standard", "deep"] = "deep"
    """Trials when not given: 15 standard, 30 deep."""
    trials: Count | None = None
    seed: CountOrNone = 0

    @field_validator("assets", mode="before")
    @classmethod
    def group_or_list(cls, value: object) -> object:
        listed = value if isinstance(value, list) else [value]
        for index, asset in enumerate(listed):
            if not isinstance(asset, str) or not asset.strip():
                at = (index,) if isinstance(value, list) else ()
                raise QuantityError(f"{shown(asset)} is not an asset", "write a group's name or [AAVEUSDC, …]", at)
        return tuple(listed) if isinstance(value, list) else value

    @field_validator("variants", "costs_bps", "assets")
    @classmethod
    def distinct(cls, values: Any) -> Any:
        if values is None or isinstance(values, str):
            return values
        if not values:
            raise QuantityError("the list is empty", "write at least one")
        return once(values)

    def general(self, keys: Mapping[str, Any]) -> General:
        """Return the sweep in general keys."""
        run = keys.get("run")
        trading = PLUGIN.owns(run)
        made = {"workload": PLUGIN.name, **keys} if run is None else dict(keys)
        wrong, origins = [], {}
        for short, general in (("factor", "compare"), ("assets", "over"), ("folds", "over"), ("costs_bps", "average")):
            if general in keys and getattr(self, short) is not None:
                message = f"{short} is the short form of {general}, which is there, too"
                wrong.append(QuantityError(message, f"write {short} or {general}", (short,), "two-forms"))
        QuantityError.raise_all(wrong)
        if "compare" not in keys:
            made["compare"] = {self.factor: self.values()}
            origins[f"compare.{self.factor}"] = "variants" if self.variants is not None else "factor"
        folds = folds_in(keys.get("over"))
        if "over" not in keys and (self.assets is not None or "compare" not in keys):
            made["over"], folds = self.blocks(trading), self.folds or FOLDS
            origins |= {"over.asset": "assets", "over.fold": "folds"}
        costs = self.costs_bps or (list(COSTS_BPS) if run is None and not {"compare", "over"} & set(keys) else None)
        if costs is not None:
            made["average"] = {"cost_bps": Checked(costs)}
            origins["average.cost_bps"] = "costs_bps"
        elif trading and "average" in keys:
            made["average"] = with_float_costs(keys["average"])
        implied: dict[str, Any] = {"trials": self.trials or TRIALS[self.power], "seed": self.seed}
        implied |= {"folds": folds} if folds is not None else {}
        implied |= {"cost_bps": 0.0} if run is not None and costs is None else {}
        origins |= {f"settings.{name}": name for name in ("trials", "seed", "folds")}
        if not {"compare", "over"} & set(keys):
            return General(made, implied, origins, self.wrong(run is None))
        return General(made, implied)

    def values(self) -> Checked:
        """Return the variants; a factor's own for those written, so that ``1`` and ``1.0`` are one row with one key."""
        if self.factor is None:
            raise QuantityError("'factor' is required", "add  factor: calibration", ("factor",), "missing")
        factor = FACTORS.get(self.factor)
        if factor is None:
            return Checked(self.variants or ("undefined",))
        own = {(isinstance(value, bool), value): value for value in factor.variants}
        written = factor.variants if self.variants is None else self.variants
        return Checked(own.get((isinstance(value, bool), value), value) for value in written)

    def wrong(self, shipped: bool) -> tuple[QuantityError, ...]:
        """Return names that the catalogue does not have; a function of one's own may have more variants of a factor."""
        factor = FACTORS.get(self.factor or "")
        if factor is None and self.factor is not None and self.variants is None:
            message, remedy = not_defined("factor", self.factor, FACTORS)
            remedy = f"{remedy}, or give your own factor its variants"
            return (QuantityError(message, remedy, ("factor",), "undefined-factor"),)
        if factor is None or factor.free or not shipped:
            return ()
        known = f"choose one of {', '.join(map(str, factor.variants))}"
        return tuple(
            QuantityError(
                f"{shown(value)} is not a variant of {factor.name}", known, ("variants", index), "unknown-variant"
            )
            for index, value in enumerate(self.variants or ())
            if value not in factor.variants
        )

    def blocks(self, trading: bool) -> dict[str, OverAxis]:
        if self.assets is None:
            raise QuantityError("'assets' is required", "add  assets: defi_top5", ("assets",), "missing")
        kind = AxisKind.PERIODS if trading else AxisKind.FOLDS
        folds = OverAxis(kind, tuple(range(self.folds or FOLDS)))
        return {"asset": OverAxis(AxisKind.SAMPLE, self.assets), "fold": folds}


def with_float_costs(average: Any) -> Any:
    """Return averaged axes with costs as the short form has them, so that ``10`` and ``10.0`` are one row."""
    if not isinstance(average, Mapping) or not isinstance(average.get("cost_bps"), list):
        return average
    costs = [float(cost) if type(cost) is int else cost for cost in average["cost_bps"]]
    return {**average, "cost_bps": costs}


def folds_in(over: Any) -> int | None:
    """Return how many folds a sweep has that is written in general keys."""
    written = over.get("fold") if isinstance(over, Mapping) else None
    try:
        return len(parse_over("fold", written)[1]) if written is not None else None
    except QuantityError:
        return None  # the sweep's own check says what is wrong


def most_features(compared: Mapping[str, Any]) -> int | None:
    """Return the columns of the largest training set of a sweep that varies their number."""
    counts = [FULL_FEATURES if value == "full" else value for value in compared.get("n_features", ())]
    return max((count for count in counts if isinstance(count, int)), default=None)


PLUGIN = WorkloadPlugin(
    name="finetune",
    title="the trading workload",
    run="scalable_finetune.workload:WORKLOAD",
    short_form=TradingForm,
    groups=GROUPS,
    factors=FACTORS,
    profiles=PROFILES,
    related=lambda run: run.startswith(tuple(f"{package}." for package in PACKAGES)),
    features=most_features,
    once_per_job=frozenset({"cost_bps"}),
    metrics=METRICS,
    primary=PRIMARY,
    guards=GUARDS,
    incomparable=INCOMPARABLE,
    evidence=EVIDENCE,
    cost=COST,
    curves=CURVES,
    on_this_machine=frozenset({"market"}),
    requires=("numpy", "pandas", "polars", "scipy", "sklearn", "xgboost", "optuna", "cleanlab"),
    extra="finetune",
)
