"""What runs: sweeps, shapes of other workloads, and what of it may run at the same time."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from scalable.errors import QuantityError
from scalable.manifest.fields import (
    Amount,
    Count,
    CountOrNone,
    Flag,
    Importable,
    Many,
    Positive,
    Section,
    Text,
    Variant,
    Wait,
    as_number,
)
from scalable.quantities import Duration, Memory, Money, Share
from scalable.wording import shown


class Retry(Section):
    """How often and how soon a run is tried again that a lost worker, its memory or a connection ended."""

    times: CountOrNone = 1
    delay: Duration = Duration(60)
    """Before the first retry; it doubles with each."""
    cap: Duration = Duration(300)


class Minutes(Section):
    """How long a run takes: always the same, or spread out (log-normal) with this median and 95th percentile."""

    p50: Positive
    p95: Positive

    @model_validator(mode="before")
    @classmethod
    def short(cls, value: Any) -> Any:
        if isinstance(value, dict | Minutes):
            return value
        value = as_number(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
            remedy = "write e.g. 3.5, or {p50: 3.5, p95: 6}"
            raise QuantityError(f"{shown(value)} is not a number of minutes above 0", remedy)
        return {"p50": value, "p95": value}

    @model_validator(mode="after")
    def ordered(self) -> Minutes:
        if self.p95 < self.p50:
            raise QuantityError(
                f"p95 {self.p95:g} is under p50 {self.p50:g}", f"write p95: {self.p50:g} or more", ("p95",)
            )
        return self


class Sweep(Section):
    """An ablation: every variant of one factor over assets × folds × costs, one row each."""

    factor: Text
    """A factor of the catalogue, or a name of your own with its variants."""
    variants: list[Variant] | None = None
    """Which variants; all of the factor's when not given."""
    assets: str | tuple[str, ...]
    """The name of a group, or a list of assets."""
    folds: Count = 5
    costs_bps: list[Amount] = Field(default=[10.0, 20.0, 30.0], min_length=1)
    """Trading costs in basis points; each is a row of its own on the same trades."""
    power: Literal["standard", "deep"] = "deep"
    """Trials when not given: 15 standard, 30 deep."""
    trials: Count | None = None
    seed: CountOrNone = 0
    run: Importable = None
    """package.module:function of a workload of your own."""
    settings: dict[str, Variant] = {}
    """Values of the workload's configuration that differ from its defaults, the same for every row."""
    metrics: dict[str, Literal["higher", "lower"]] = {}
    """Which metrics the verdict rests on and which way each is better; those of trading and common ones are known."""
    overlap: Flag = False
    """It may run beside any other sweep, as Discovery and WFRB may; else two normal ones, or a heavy one alone."""
    run_minutes: Minutes | None = None
    """Minutes of one run on all CPUs of its profile's limit, until five were measured."""
    samples: Many | None = None
    features: Many | None = None
    """With samples: the size of the training matrix, for the memory check before anything is paid."""
    profile: Text | None = None
    """The worker's size; follows from the factor when not given."""
    pool: Text | None = None
    workers: Count | None = None
    """Workers of the plan `manual`; one per asset when not given."""
    deadline: Wait | None = None
    """How long it may take, from its first run's start to its last row; the target's walltime when not given."""
    retry: Retry | None = None
    """What it does not say itself is as in policies.retry."""

    @field_validator("assets", mode="before")
    @classmethod
    def group_or_list(cls, value: object) -> object:
        listed = value if isinstance(value, list) else [value]
        for index, asset in enumerate(listed):
            if not isinstance(asset, str) or not asset.strip():
                at = (index,) if isinstance(value, list) else ()
                raise QuantityError(f"{shown(asset)} is not an asset", "write a group's name or [AAVEUSDC, …]", at)
        return tuple(listed) if isinstance(value, list) else value

    @model_validator(mode="before")
    @classmethod
    def costs(cls, value: Any) -> Any:
        """A workload of one's own has no trading costs unless it says so."""
        if isinstance(value, dict) and value.get("run") is not None:
            return {"costs_bps": [0.0], **value}
        return value

    @field_validator("variants", "costs_bps", "assets")
    @classmethod
    def distinct(cls, values: Any) -> Any:
        if values is None or isinstance(values, str):
            return values
        if not values:
            raise QuantityError("the list is empty", "write at least one")
        return once(values)


class Workload(Section):
    """A shape for planning when no sweep is written down: this many workers, busy for this long."""

    workers: Count
    profile: Text
    hours: Positive
    peak_memory: Memory | None = None
    pool: Text | None = None


class Stated(Section):
    """What an earlier document says; where the forecast differs, a note says so."""

    hours: Positive | None = None
    cost: Money | None = None
    monthly: Money | None = None
    nodes: Count | None = None
    rows: Count | None = None
    run_minutes: Positive | None = None
    """Minutes a row that it counted with for every sweep (default: each sweep's own)."""
    ram_margin: Share | None = None


class Together(Section):
    """Things that run at the same time."""

    sweeps: dict[str, Count] = {}
    """A sweep's name, or a profile's for "any sweep of that size": how many."""
    workloads: dict[str, Count] = {}
    stated: Stated | None = None

    @model_validator(mode="before")
    @classmethod
    def short(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("workloads"), list | str):
            names = [value["workloads"]] if isinstance(value["workloads"], str) else value["workloads"]
            return {**value, "workloads": {str(name): names.count(name) for name in names}}
        return value


class Scenario(Together):
    """What may run at the same time."""

    @model_validator(mode="after")
    def something(self) -> Scenario:
        if not self.sweeps and not self.workloads:
            raise QuantityError("the scenario is empty", "write e.g. {sweeps: {standard: 2}, workloads: [discovery]}")
        return self


def once(values: Any) -> Any:
    """Return a list in which nothing stands twice: a cell of the grid has one row."""
    seen = set()
    wrong = []
    for index, value in enumerate(values):
        this = (isinstance(value, bool), value)  # 1 and 1.0 are one value, true is another
        if this in seen:
            wrong.append(QuantityError(f"{value} is listed twice", "a cell has one row: remove one", (index,)))
        seen.add(this)
    QuantityError.raise_all(wrong)
    return values
