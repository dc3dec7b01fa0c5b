"""The records of a session on itself: what was started where, what was planned, and how it ended.

``EventLog`` writes down every event that the engine is told and what it answers, so that the run can be replayed. Its
file is apart from the journal, which people and pages read: signs of life alone are a line per job and second.
"""

from __future__ import annotations

import atexit
import os
import platform
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalable import __version__, proc
from scalable.cluster.base import DeploymentSpec
from scalable.engine import Rules
from scalable.engine.events import Event, Instruction
from scalable.observe.journal import Journal
from scalable.planning.campaign import Campaign
from scalable.planning.components import ComponentPlan
from scalable.planning.plan import Plan
from scalable.planning.replay import event_record, rules_record

if TYPE_CHECKING:
    from scalable.session.session import ScalableSession

AnyPlan = Plan | Campaign | ComponentPlan
LIBRARIES = (
    "dask", "distributed", "numpy", "scipy", "pandas", "polars", "scikit-learn", "xgboost", "xgboost-cpu", "optuna",
    "cleanlab", "torch", "grpcio", "sqlalchemy", "psycopg", "kr8s", "boto3",
)  # fmt: skip
"""Packages whose versions a run writes down."""


def started(session: ScalableSession, spec: DeploymentSpec) -> dict[str, Any]:
    """Return what ``run.json`` and the journal begin with."""
    return {
        "t": time.time(),
        "run_id": session.run.run_id if session.run else None,
        "project": session.manifest.project.name,
        "manifest": str(session.path.resolve()),
        "manifest_digest": session.manifest_digest,
        "target": spec.target_name,
        "provider": spec.target.provider,
        "pid": os.getpid(),
        "process": proc.identity(os.getpid()),
        "host": socket.gethostname(),
        "version": __version__,
        "python": platform.python_version(),
        "libraries": libraries(),
        "command": sys.argv,
        "cwd": os.getcwd(),  # noqa: PTH109 - as text
    }


@cache
def libraries() -> dict[str, str]:
    """Return the versions of installed packages on which results and failures depend."""
    return {name: version for name in LIBRARIES if (version := installed(name)) is not None}


def versions() -> dict[str, str]:
    """Return the versions of this process by package, as an incident is handed over with them."""
    return {"scalable": __version__, "python": platform.python_version(), **libraries()}


def installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def planned(plan: AnyPlan) -> dict[str, Any]:
    """Return the plan as the journal keeps it, to be compared with what happened."""
    scale, cost = plan.scale_plan, plan.cost_estimate
    facts = plan.to_dict()
    return {
        "workers_by_tag": dict(scale.workers_by_tag),
        "resources_by_tag": {tag: size.to_dict() for tag, size in scale.resources_by_tag.items()},
        "wall_s": facts.get("wall_s"),
        "ready_s": facts.get("ready_s"),
        "cost": facts.get("cost"),
        "node_hours": facts.get("node_hours"),
        "hours": facts.get("hours"),
        "hourly": cost.total_hourly if cost else None,
        "tasks": facts.get("tasks"),
        "peaks": facts.get("peaks"),
        "objective": facts.get("objective"),
        "policy": facts.get("policy"),
        "sweep": facts.get("sweep", ""),
        "pinned": plan.pinned,
    }


def ending(error: BaseException | None) -> tuple[str, str]:
    """Return how a run ended, in the words of the journal, and why."""
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return "ok", ""
    status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
    return status, "".join(traceback.format_exception_only(error)).strip()


class EventLog:
    """The file of a session's events; called with each of them."""

    def __init__(self, path: Path, rules: Rules) -> None:
        self.journal = Journal(path, later=True)
        atexit.unregister(self.journal.close)  # the session closes it
        self.write(*rules_record(rules))

    def __call__(self, now: float, event: Event, instructions: Sequence[Instruction]) -> None:
        self.write(*event_record(now, event, instructions))

    def write(self, kind: str, facts: dict[str, Any]) -> None:
        self.journal.write(kind, **facts)

    def close(self) -> None:
        self.journal.close()
