"""The budget, and the questions about money that the forecast answers."""

from __future__ import annotations

from pydantic import model_validator

from scalable.errors import QuantityError
from scalable.manifest.fields import Count, CountOrNone, Positive, Section, Text
from scalable.manifest.work import Stated, Together
from scalable.quantities import Money, Price


class Sessions(Section):
    """How often a scenario happens in a month and for how long."""

    sessions: CountOrNone
    hours: Positive
    nodes: Count | None = None
    """As many as the scenario needs when not given."""


class Option(Section):
    """One way to run a sweep, to be compared with others."""

    sweep: Text
    pool: Text
    workers: Count
    nodes: Count | None = None
    """Keep the pool to so many nodes."""
    stated: Stated | None = None


class Growth(Together):
    """A question about more: more assets, more at once, another node type, or nodes that never stop."""

    assets: Text | None = None
    """A group that replaces the assets of the sweeps."""
    node: Text | None = None
    """A node type that replaces the pool's."""
    always_on: CountOrNone = 0

    @model_validator(mode="after")
    def something(self) -> Growth:
        if bool(self.sweeps or self.workloads) == bool(self.always_on):
            raise QuantityError(
                "a growth question has either sweeps and workloads, or always_on",
                "write e.g. {sweeps: {standard: 1}, assets: defi_full}",
            )
        if self.always_on and self.node is None:
            raise QuantityError("always_on needs a node", "write e.g. {node: PRO2-M, always_on: 2}")
        return self


class Budget(Section):
    monthly: Money
    fixed: dict[str, Money] = {}
    price: Price | None = None
    """An hourly price for projections instead of the node's own, such as a rounded one."""
    months: dict[str, dict[str, Sessions]] = {}
    options: dict[str, Option] = {}
    growth: dict[str, Growth] = {}
    stated: Stated | None = None
    """For all sweeps together: rows, and hours on a single worker."""
