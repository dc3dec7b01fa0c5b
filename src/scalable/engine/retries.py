"""What follows a lost attempt: once more, once more on a larger profile, or no more; and the words for it.

A deterministic error would come again, so it is not retried. An attempt that ran out of memory goes to a larger
profile or nowhere. Being preempted, reaching a walltime or being stopped by us is not the run's fault and costs no
retry, within a bound that ends work which never fits into its time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scalable.engine.events import Loss
from scalable.engine.rules import ANY_MEMORY, WorkerKind
from scalable.engine.state import Attempt, RunRecord
from scalable.manifest.policies import Retry as Policy
from scalable.quantities import Duration, Memory

MAX_HANDOVERS = 10  # free moves before a run is given up; a run longer than its walltime would move for ever
MAX_CRASHES = 2  # a bad node or a race in a library may crash a process once; what crashes again would go on doing so
DOUBLINGS = 50  # of a delay, which are enough for any cap, and not too many for a number
UNDERSIZED_RUNS = 2  # one that runs out of memory may be an exception

NOT_RETRIED = frozenset({Loss.RAISED, Loss.CANNOT_START, Loss.OPERATOR})
FREE = frozenset({Loss.PREEMPTED, Loss.WALLTIME, Loss.STOPPED})
SILENT = frozenset({Loss.WORKER_LOST, Loss.KILLED})  # ends that a system short of memory causes, too

SUSPICIOUS = 0.9  # of the limit, from which a silent end looks like one for memory


@dataclass(frozen=True, slots=True)
class Again:
    after_s: float
    tag: str
    charged: bool


@dataclass(frozen=True, slots=True)
class GiveUp:
    reason: str


def verdict(record: RunRecord, kinds: Mapping[str, WorkerKind], policy: Policy) -> Again | GiveUp:
    """Decide on the last attempt in ``record.past``."""
    last, kind = record.past[-1], kinds[record.tag]
    detail = f": {last.message}" if last.message else ""
    if last.cause in NOT_RETRIED:
        return GiveUp(told(last))
    if last.cause in FREE:
        if record.handovers >= MAX_HANDOVERS:
            return GiveUp(f"{last.cause.value} {record.handovers} times without finishing; give it a longer walltime")
        return Again(0.0, record.tag, charged=False)
    if last.cause is Loss.OUT_OF_MEMORY and kind.larger is None:
        suggestion = f"; {advice(last.peak, kind.has)}" if last.peak else ""
        return GiveUp(f"out of memory and no larger profile exists: {peaks(record.past, kinds)}{suggestion}")
    crashes = sum(one.cause is Loss.CRASHED for one in record.past)
    if record.charged >= policy.times or (last.cause is Loss.CRASHED and crashes >= MAX_CRASHES):
        tries = f"after {len(record.past)} attempts" if len(record.past) > 1 else "and no retry is allowed"
        seen = f" ({peaks(record.past, kinds)})" if last.cause is Loss.OUT_OF_MEMORY else ""
        return GiveUp(f"{last.cause.value} {tries}{detail}{seen}{suspicion(last, kind.has)}")
    delay = min(policy.delay.seconds * 2.0 ** min(record.charged, DOUBLINGS), policy.cap.seconds)
    tag = kind.larger if last.cause is Loss.OUT_OF_MEMORY and kind.larger else record.tag
    return Again(delay, tag, charged=True)


def used(record: RunRecord, last: Attempt, kinds: Mapping[str, WorkerKind], tag: str, after_s: float) -> str:
    """What people are told when a retry is used: the cause and, where memory is it, the size to ask for."""
    when = f"is run again in {Duration(after_s)}"
    if last.cause is Loss.OUT_OF_MEMORY:
        limit = kinds[last.tag].has
        where = f"on {tag}, which has {kinds[tag].has}"
        return f"{record.run.id}: out of memory ({peaks([last], kinds)}), {when} {where}; {advice(last.peak, limit)}"
    return f"{record.run.id}: {told(last)}, {when}{suspicion(last, kinds[last.tag].has)}"


def told(attempt: Attempt) -> str:
    return f"{attempt.cause.value}: {attempt.message}" if attempt.message else attempt.cause.value


def by_operator(reason: str) -> str:
    return f"{Loss.OPERATOR.value}: {reason}" if reason else Loss.OPERATOR.value


def peaks(past: Sequence[Attempt], kinds: Mapping[str, WorkerKind]) -> str:
    """What each attempt used of what it had where: ``9 GiB of 8 GiB on standard, 25 GiB of 24 GiB on heavy``."""
    lost = [one for one in past if one.cause is Loss.OUT_OF_MEMORY]
    return ", ".join(f"{one.peak or 'an unknown peak'} of {kinds[one.tag].has} on {one.tag}" for one in lost)


def advice(peak: Memory | None, limit: Memory) -> str:
    size = Memory.to_ask_for(peak, limit if limit < ANY_MEMORY else None)
    return f"{'' if peak else 'its peak is not known, '}ask for {size or 'more'}"


def suspicion(attempt: Attempt, limit: Memory) -> str:
    peak = attempt.peak
    if attempt.cause not in SILENT or peak is None or peak.bytes < SUSPICIOUS * limit.bytes:
        return ""
    return f"; memory is suspected, it used {peak} of {limit}: {advice(peak, limit)}"
