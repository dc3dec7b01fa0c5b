"""The stuck rule: an attempt is stuck when it gave no sign for ``after`` and its worker persisted no row meanwhile.

A run that reports progress is judged by its reports; a declared long step is not due before its end. Code that never
reports is judged by the CPU use of its process tree, and by a walltime if one is set.
"""

from __future__ import annotations

from scalable.engine.state import RunRecord, WorkerRecord
from scalable.manifest.policies import Stuck as Policy


def due(record: RunRecord, worker: WorkerRecord, policy: Policy) -> float:
    """When the attempt will be stuck if nothing more is heard of it."""
    silent = max(record.sign, worker.last_row) + policy.after.seconds
    if not record.reports and policy.walltime is not None:
        return min(silent, max(record.sign, record.started + policy.walltime.seconds))
    return silent
