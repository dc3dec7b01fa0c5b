"""Describe a sweep once, see its size, time, cost and risk before paying, then run it anywhere.

The public names are imported when they are first used, so that ``import scalable`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scalable.caching import DirType, FileType, ValueType, cacheable
    from scalable.engine import AdaptiveScaler, ScaleDecision
    from scalable.errors import PlanningError, QuantityError, ScalableError, UnknownTagError, UsageError
    from scalable.manifest import Issue, Manifest, ManifestError, ValidationReport, load_file, load_text
    from scalable.planning import Campaign, Choice, History, Machine, Plan, Site, plan_all, plan_sweep
    from scalable.providers import (
        ClusterHandle,
        DeploymentProvider,
        DeploymentSpec,
        LaunchRefused,
        ProviderError,
        get_provider,
        register_provider,
    )
    from scalable.providers.client import ScalableClient, WorkerKilledError
    from scalable.providers.giving_up import NoWorkerError
    from scalable.providers.slurm.cluster import SlurmCluster
    from scalable.quantities import Cpu, Duration, Memory, Money, Price
    from scalable.runner.stamp import long_step, progress
    from scalable.session.session import ScalableSession
    from scalable.session.tasks import TaskError
    from scalable.sizing.resources import CostEstimate, ResourceRequest, ScalePlan
    from scalable.store import Row, Store, StoreError, open_store
    from scalable.sweeps.decisions import Decision, Verdict
    from scalable.sweeps.loading import decide, results
    from scalable.sweeps.stages import scratch, stage
    from scalable.sweeps.workload import Workload
    from scalable.worker.guarded import RunKilledError

__version__ = "0.1.0"

HOMES = {
    "scalable.caching": ("DirType", "FileType", "ValueType", "cacheable"),
    "scalable.engine": ("AdaptiveScaler", "ScaleDecision"),
    "scalable.errors": ("PlanningError", "QuantityError", "ScalableError", "UnknownTagError", "UsageError"),
    "scalable.manifest": ("Issue", "Manifest", "ManifestError", "ValidationReport", "load_file", "load_text"),
    "scalable.planning": (*("Campaign", "Choice", "History", "Machine", "Plan", "Site", "plan_all", "plan_sweep"),),
    "scalable.providers": (
        *("ClusterHandle", "DeploymentProvider", "DeploymentSpec", "LaunchRefused", "ProviderError"),
        *("get_provider", "register_provider"),
    ),
    "scalable.providers.client": ("ScalableClient", "WorkerKilledError"),
    "scalable.providers.giving_up": ("NoWorkerError",),
    "scalable.worker.guarded": ("RunKilledError",),
    "scalable.providers.slurm.cluster": ("SlurmCluster",),
    "scalable.runner.stamp": ("long_step", "progress"),
    "scalable.session.session": ("ScalableSession",),
    "scalable.session.tasks": ("TaskError",),
    "scalable.store": ("Row", "Store", "StoreError", "open_store"),
    "scalable.sweeps.decisions": ("Decision", "Verdict"),
    "scalable.sweeps.loading": ("decide", "results"),
    "scalable.sweeps.stages": ("scratch", "stage"),
    "scalable.sweeps.workload": ("Workload",),
    "scalable.quantities": ("Cpu", "Duration", "Memory", "Money", "Price"),
    "scalable.sizing.resources": ("CostEstimate", "ResourceRequest", "ScalePlan"),
}
PUBLIC = {name: home for home, names in HOMES.items() for name in names}

__all__ = [
    "AdaptiveScaler",
    "Campaign",
    "Choice",
    "ClusterHandle",
    "CostEstimate",
    "Cpu",
    "Decision",
    "DeploymentProvider",
    "DeploymentSpec",
    "DirType",
    "Duration",
    "FileType",
    "History",
    "Issue",
    "LaunchRefused",
    "Machine",
    "Manifest",
    "ManifestError",
    "Memory",
    "Money",
    "NoWorkerError",
    "Plan",
    "PlanningError",
    "Price",
    "ProviderError",
    "QuantityError",
    "ResourceRequest",
    "Row",
    "RunKilledError",
    "ScalableClient",
    "ScalableError",
    "ScalableSession",
    "ScaleDecision",
    "ScalePlan",
    "Site",
    "SlurmCluster",
    "Store",
    "StoreError",
    "TaskError",
    "UnknownTagError",
    "UsageError",
    "ValidationReport",
    "ValueType",
    "Verdict",
    "WorkerKilledError",
    "Workload",
    "cacheable",
    "decide",
    "get_provider",
    "load_file",
    "load_text",
    "long_step",
    "open_store",
    "plan_all",
    "plan_sweep",
    "progress",
    "register_provider",
    "results",
    "scratch",
    "stage",
]


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module 'scalable' has no attribute {name!r}")
    value = getattr(import_module(PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
