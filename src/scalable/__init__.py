"""Describe a sweep once, see its size, time, cost and risk before paying, then run it anywhere.

The public names are imported when they are first used, so that ``import scalable`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scalable.cluster.base import (
        ClusterHandle,
        DeploymentProvider,
        DeploymentSpec,
        LaunchRefused,
        ProviderError,
        get_provider,
        register_provider,
    )
    from scalable.cluster.client import ScalableClient, WorkerKilledError
    from scalable.cluster.scheduler import NoWorkerError
    from scalable.cluster.slurm.provider import SlurmCluster
    from scalable.engine import AdaptiveScaler, ScaleDecision
    from scalable.errors import PlanningError, QuantityError, ScalableError, UnknownTagError, UsageError
    from scalable.manifest import Issue, Manifest, ManifestError, ValidationReport, load_file, load_text
    from scalable.planning.campaign import Campaign, plan_all
    from scalable.planning.front import Choice
    from scalable.planning.history import History
    from scalable.planning.plan import Plan, plan_sweep
    from scalable.planning.resources import CostEstimate, ResourceRequest, ScalePlan
    from scalable.planning.site import Machine, Site
    from scalable.quantities import Cpu, Duration, Memory, Money, Price
    from scalable.session.session import ScalableSession
    from scalable.session.tasks import TaskError
    from scalable.store import Row, Store, StoreError, open_store
    from scalable.store.caching import DirType, FileType, ValueType, cacheable
    from scalable.sweeps.decisions import Decision, Verdict
    from scalable.sweeps.loading import decide, results
    from scalable.sweeps.stages import scratch, stage
    from scalable.sweeps.workload import Workload
    from scalable.worker.guarded import RunKilledError
    from scalable.worker.runner.stamp import long_step, progress

__version__ = "0.1.0"

HOMES = {
    "scalable.store.caching": ("DirType", "FileType", "ValueType", "cacheable"),
    "scalable.engine": ("AdaptiveScaler", "ScaleDecision"),
    "scalable.errors": ("PlanningError", "QuantityError", "ScalableError", "UnknownTagError", "UsageError"),
    "scalable.manifest": ("Issue", "Manifest", "ManifestError", "ValidationReport", "load_file", "load_text"),
    "scalable.planning.campaign": ("Campaign", "plan_all"),
    "scalable.planning.front": ("Choice",),
    "scalable.planning.history": ("History",),
    "scalable.planning.plan": ("Plan", "plan_sweep"),
    "scalable.planning.site": ("Machine", "Site"),
    "scalable.cluster.base": (
        *("ClusterHandle", "DeploymentProvider", "DeploymentSpec", "LaunchRefused", "ProviderError"),
        *("get_provider", "register_provider"),
    ),
    "scalable.cluster.client": ("ScalableClient", "WorkerKilledError"),
    "scalable.cluster.scheduler": ("NoWorkerError",),
    "scalable.worker.guarded": ("RunKilledError",),
    "scalable.cluster.slurm.provider": ("SlurmCluster",),
    "scalable.worker.runner.stamp": ("long_step", "progress"),
    "scalable.session.session": ("ScalableSession",),
    "scalable.session.tasks": ("TaskError",),
    "scalable.store": ("Row", "Store", "StoreError", "open_store"),
    "scalable.sweeps.decisions": ("Decision", "Verdict"),
    "scalable.sweeps.loading": ("decide", "results"),
    "scalable.sweeps.stages": ("scratch", "stage"),
    "scalable.sweeps.workload": ("Workload",),
    "scalable.quantities": ("Cpu", "Duration", "Memory", "Money", "Price"),
    "scalable.planning.resources": ("CostEstimate", "ResourceRequest", "ScalePlan"),
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
