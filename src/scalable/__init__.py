"""Describe a sweep once, see its size, time, cost and risk before paying, then run it anywhere.

The public names are imported when they are first used, so that ``import scalable`` costs next to nothing.
"""

from __future__ import annotations

import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:  # python -m … is just being started
    started = [after for flag, after in zip(sys.orig_argv, sys.orig_argv[1:], strict=False) if flag == "-m"][:1]
    if started and started[0].partition(".")[0] == "scalable":
        # the current folder is first on the path then: a file in it that is called typing.py would be imported
        del sys.path[0]

from typing import TYPE_CHECKING

from scalable.exports import exports

if TYPE_CHECKING:  # the names of HOMES once more, for type checkers
    # isort: off
    from scalable import mpi as mpi
    from scalable.axes import folds as folds, periods as periods
    from scalable.cluster.base import (
        ClusterHandle as ClusterHandle,
        DeploymentProvider as DeploymentProvider,
        DeploymentSpec as DeploymentSpec,
        LaunchRefused as LaunchRefused,
        ProviderError as ProviderError,
        get_provider as get_provider,
        register_provider as register_provider,
    )
    from scalable.cluster.client import ScalableClient as ScalableClient, WorkerKilledError as WorkerKilledError
    from scalable.cluster.scheduler import NoWorkerError as NoWorkerError
    from scalable.cluster.slurm.provider import SlurmCluster as SlurmCluster
    from scalable.engine import AdaptiveScaler as AdaptiveScaler, ScaleDecision as ScaleDecision
    from scalable.errors import (
        PlanningError as PlanningError,
        QuantityError as QuantityError,
        ScalableError as ScalableError,
        UnknownTagError as UnknownTagError,
        UsageError as UsageError,
    )
    from scalable.manifest import (
        Issue as Issue,
        Manifest as Manifest,
        ManifestError as ManifestError,
        ValidationReport as ValidationReport,
        load_file as load_file,
        load_text as load_text,
    )
    from scalable.planning.campaign import Campaign as Campaign, plan_all as plan_all
    from scalable.planning.front import Choice as Choice
    from scalable.planning.history import History as History
    from scalable.planning.plan import Plan as Plan, plan_sweep as plan_sweep
    from scalable.planning.resources import (
        CostEstimate as CostEstimate,
        ResourceRequest as ResourceRequest,
        ScalePlan as ScalePlan,
    )
    from scalable.planning.site import Machine as Machine, Site as Site
    from scalable.quantities import Cpu as Cpu, Duration as Duration, Memory as Memory, Money as Money, Price as Price
    from scalable.session.session import ScalableSession as ScalableSession
    from scalable.session.driver.tasks import TaskError as TaskError
    from scalable.store import Row as Row, Store as Store, StoreError as StoreError, open_store as open_store
    from scalable.store.caching import (
        DirType as DirType,
        FileType as FileType,
        ValueType as ValueType,
        cacheable as cacheable,
    )
    from scalable.python_sweep import Sweep as Sweep, SweepResult as SweepResult
    from scalable.sweeps.decisions import Decision as Decision, Verdict as Verdict
    from scalable.sweeps.loading import decide as decide, results as results
    from scalable.sweeps.stages import scratch as scratch, stage as stage
    from scalable.sweeps.workload import Workload as Workload
    from scalable.worker.guarded import RunKilledError as RunKilledError
    from scalable.worker.runner.stamp import long_step as long_step, progress as progress

__version__ = "0.1.0"

HOMES = {
    "": ("mpi",),
    "axes": ("folds", "periods"),
    "cluster.base": (
        *("ClusterHandle", "DeploymentProvider", "DeploymentSpec", "LaunchRefused", "ProviderError"),
        *("get_provider", "register_provider"),
    ),
    "cluster.client": ("ScalableClient", "WorkerKilledError"),
    "cluster.scheduler": ("NoWorkerError",),
    "cluster.slurm.provider": ("SlurmCluster",),
    "engine": ("AdaptiveScaler", "ScaleDecision"),
    "errors": ("PlanningError", "QuantityError", "ScalableError", "UnknownTagError", "UsageError"),
    "manifest": ("Issue", "Manifest", "ManifestError", "ValidationReport", "load_file", "load_text"),
    "planning.campaign": ("Campaign", "plan_all"),
    "planning.front": ("Choice",),
    "planning.history": ("History",),
    "planning.plan": ("Plan", "plan_sweep"),
    "planning.resources": ("CostEstimate", "ResourceRequest", "ScalePlan"),
    "planning.site": ("Machine", "Site"),
    "python_sweep": ("Sweep", "SweepResult"),
    "quantities": ("Cpu", "Duration", "Memory", "Money", "Price"),
    "session.session": ("ScalableSession",),
    "session.driver.tasks": ("TaskError",),
    "store": ("Row", "Store", "StoreError", "open_store"),
    "store.caching": ("DirType", "FileType", "ValueType", "cacheable"),
    "sweeps.decisions": ("Decision", "Verdict"),
    "sweeps.loading": ("decide", "results"),
    "sweeps.stages": ("scratch", "stage"),
    "sweeps.workload": ("Workload",),
    "worker.guarded": ("RunKilledError",),
    "worker.runner.stamp": ("long_step", "progress"),
}
__all__, __getattr__, __dir__ = exports(__name__, HOMES)
