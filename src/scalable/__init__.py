"""Describe a sweep once, see its size, time, cost and risk before paying, then run it anywhere.

The public names are imported when they are first used, so that ``import scalable`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scalable.engine import AdaptiveScaler, ScaleDecision
    from scalable.errors import PlanningError, QuantityError, ScalableError, UsageError
    from scalable.manifest import Issue, Manifest, ManifestError, ValidationReport, load_file, load_text
    from scalable.planning import Campaign, Choice, CostEstimate, History, Machine, Plan, Site, plan_all, plan_sweep
    from scalable.quantities import Cpu, Duration, Memory, Money, Price
    from scalable.sizing.resources import ResourceRequest, ScalePlan

__version__ = "0.1.0"

HOMES = {
    "scalable.engine": ("AdaptiveScaler", "ScaleDecision"),
    "scalable.errors": ("PlanningError", "QuantityError", "ScalableError", "UsageError"),
    "scalable.manifest": ("Issue", "Manifest", "ManifestError", "ValidationReport", "load_file", "load_text"),
    "scalable.planning": (
        *("Campaign", "Choice", "CostEstimate", "History", "Machine", "Plan", "Site", "plan_all", "plan_sweep"),
    ),
    "scalable.quantities": ("Cpu", "Duration", "Memory", "Money", "Price"),
    "scalable.sizing.resources": ("ResourceRequest", "ScalePlan"),
}
PUBLIC = {name: home for home, names in HOMES.items() for name in names}

__all__ = [
    "AdaptiveScaler",
    "Campaign",
    "Choice",
    "CostEstimate",
    "Cpu",
    "Duration",
    "History",
    "Issue",
    "Machine",
    "Manifest",
    "ManifestError",
    "Memory",
    "Money",
    "Plan",
    "PlanningError",
    "Price",
    "QuantityError",
    "ResourceRequest",
    "ScalableError",
    "ScaleDecision",
    "ScalePlan",
    "Site",
    "UsageError",
    "ValidationReport",
    "load_file",
    "load_text",
    "plan_all",
    "plan_sweep",
]


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module 'scalable' has no attribute {name!r}")
    value = getattr(import_module(PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
