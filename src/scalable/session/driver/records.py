"""What a session writes down of itself: what was started where, what was planned, and how it ended."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

from scalable import __version__, proc
from scalable.cluster.base import DeploymentSpec
from scalable.planning.campaign import Campaign
from scalable.planning.components import ComponentPlan
from scalable.planning.plan import Plan

if TYPE_CHECKING:
    from scalable.session.session import ScalableSession

AnyPlan = Plan | Campaign | ComponentPlan


def started(session: ScalableSession, spec: DeploymentSpec) -> dict[str, Any]:
    """What ``run.json`` and the journal begin with."""
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
        "command": sys.argv,
        "cwd": os.getcwd(),  # noqa: PTH109 - as text
    }


def planned(plan: AnyPlan) -> dict[str, Any]:
    """The plan as the journal keeps it, to be compared with what happened."""
    scale, cost = plan.scale_plan, plan.cost_estimate
    facts = plan.to_dict()
    return {
        "workers_by_tag": dict(scale.workers_by_tag),
        "resources_by_tag": {tag: size.to_dict() for tag, size in scale.resources_by_tag.items()},
        "wall_s": facts.get("wall_s"),
        "ready_s": facts.get("ready_s"),
        "cost": facts.get("cost"),
        "node_hours": facts.get("node_hours"),
        "hourly": cost.total_hourly if cost else None,
        "tasks": facts.get("tasks"),
        "peaks": facts.get("peaks"),
        "objective": facts.get("objective"),
        "policy": facts.get("policy"),
        "sweep": facts.get("sweep", ""),
        "pinned": plan.pinned,
    }


def ending(error: BaseException | None) -> tuple[str, str]:
    """How a run ended, in the words of the journal, and why."""
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return "ok", ""
    status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
    return status, "".join(traceback.format_exception_only(error)).strip()
