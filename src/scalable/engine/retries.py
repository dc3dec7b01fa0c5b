"""What follows a lost attempt: once more, once more on a larger profile, or no more.

A deterministic error would come again, so it is not retried. An attempt that ran out of memory goes to a larger
profile or nowhere. Being preempted, reaching a walltime or being stopped by us is not the run's fault and costs no
retry, within a bound that ends work which never fits into its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scalable.engine.events import Loss
from scalable.engine.rules import WorkerKind
from scalable.engine.state import Attempt, RunRecord
from scalable.manifest.policies import Retry as Policy

MAX_HANDOVERS = 10  # free moves before a run is given up; a run longer than its walltime would move for ever

NOT_RETRIED = frozenset({Loss.RAISED, Loss.CANNOT_START, Loss.OPERATOR})
FREE = frozenset({Loss.PREEMPTED, Loss.WALLTIME, Loss.STOPPED})


@dataclass(frozen=True, slots=True)
class Again:
    after_s: float
    tag: str
    charged: bool


@dataclass(frozen=True, slots=True)
class GiveUp:
    reason: str


def verdict(record: RunRecord, kind: WorkerKind, policy: Policy) -> Again | GiveUp:
    """Decide on the last attempt in ``record.past``."""
    last = record.past[-1]
    detail = f": {last.message}" if last.message else ""
    if last.cause in NOT_RETRIED:
        return GiveUp(f"{last.cause.value}{detail}")
    if last.cause in FREE:
        if record.handovers >= MAX_HANDOVERS:
            return GiveUp(f"{last.cause.value} {record.handovers} times without finishing; give it a longer walltime")
        return Again(0.0, record.tag, charged=False)
    if last.cause is Loss.OUT_OF_MEMORY and kind.larger is None:
        return GiveUp(f"out of memory and no larger profile exists: {peaks(record.past)}")
    if record.charged >= policy.times:
        tries = f"after {record.attempt} attempts" if record.attempt > 1 else "and no retry is allowed"
        seen = f" ({peaks(record.past)})" if last.cause is Loss.OUT_OF_MEMORY else ""
        return GiveUp(f"{last.cause.value} {tries}{detail}{seen}")
    delay = min(policy.delay.seconds * 2**record.charged, policy.cap.seconds)
    tag = kind.larger if last.cause is Loss.OUT_OF_MEMORY and kind.larger else record.tag
    return Again(delay, tag, charged=True)


def peaks(past: Sequence[Attempt]) -> str:
    """What each attempt used where: ``9 GiB on standard, 25 GiB on heavy``."""
    seen = [(a.peak, a.tag) for a in past if a.cause is Loss.OUT_OF_MEMORY]
    return ", ".join(f"{peak if peak else 'unknown peak'} on {tag}" for peak, tag in seen)
