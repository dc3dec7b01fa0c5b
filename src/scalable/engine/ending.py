"""How runs end: finished, stopped, refused or killed; or lost, and then perhaps tried again.

A deterministic error would come again, so it is not retried. An attempt that ran out of memory goes to a larger
profile or nowhere. Being preempted, reaching a walltime or being stopped by us is not the run's fault and costs no
retry, within a bound that ends work which never fits into its time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scalable.engine import starting, workers
from scalable.engine.events import FINAL, KillRun, Loss, RunEnded, RunFinished, RunLost, RunState
from scalable.engine.rules import ANY_MEMORY, KILL_WITHIN_S, WorkerKind
from scalable.engine.state import Attempt, RunRecord, State, SweepRecord
from scalable.findings import Severity
from scalable.manifest.policies import Retry as Policy
from scalable.quantities import Duration, Memory

CANCELLED = "its sweep was cancelled"
LIVE = (RunState.GIVEN, RunState.RUNNING, RunState.KILLING)
NOT_BEGUN = (Loss.STOPPED, Loss.OPERATOR)  # how a worker reports a run that it was told to forget

MAX_HANDOVERS = 10  # free moves before a run is given up; a run longer than its walltime would move for ever
MAX_CRASHES = 2  # a bad node or a race in a library may crash a process once; what crashes again would go on doing so
DOUBLINGS = 50  # of a delay, which are enough for any cap, and not too many for a number
UNDERSIZED_RUNS = 2  # one that runs out of memory may be an exception

NOT_RETRIED = frozenset({Loss.RAISED, Loss.CANNOT_START, Loss.OPERATOR})
FREE = frozenset({Loss.PREEMPTED, Loss.WALLTIME, Loss.STOPPED})
SILENT = frozenset({Loss.WORKER_LOST, Loss.KILLED})  # ends that a system short of memory causes, too

SUSPICIOUS = 0.9  # of the limit, from which a silent end looks like one for memory


def current(state: State, run: str, attempt: int) -> RunRecord | None:
    """The record of a live attempt; nothing for reports about attempts that are over."""
    record = state.runs.get(run)
    if record is None or record.attempt != attempt:
        return None
    return record if record.state in LIVE else None


def on_finished(state: State, event: RunFinished, now: float) -> None:
    record = current(state, event.run, event.attempt)
    if record is not None:
        seen = state.experience(record)
        seen.finished += 1
        if event.seconds is not None:
            seen.pace.note(event.seconds)
            state.tags[record.tag].pace.note(event.seconds)
            if seen.pace.window:
                state.vacated.append(state.workers[record.worker])
        detach(state, record, now)
        end(state, record, RunState.FINISHED)


def on_lost(state: State, event: RunLost, now: float) -> None:
    record = current(state, event.run, event.attempt)
    if record is None:
        return
    if event.run in state.workers[record.worker].ahead and event.cause in NOT_BEGUN:
        return_unbegun(state, record, now)
        return
    pace = state.experience(record).pace
    if pace.known and event.seconds is not None and event.seconds > pace.mean:  # a quick failure tells nothing
        pace.note(event.seconds)
    lost(state, record, event, now)
    if record.past[-1].cause is Loss.CANNOT_START:
        refuse_rest(state, state.sweeps[record.run.sweep], record.reason)


def lost(state: State, record: RunRecord, event: RunLost, now: float) -> None:
    """Close an attempt that had begun and decide what follows."""
    cause = Loss.OPERATOR if record.killed_for is Loss.OPERATOR else event.cause
    message = event.message or (record.reason if cause is Loss.OPERATOR else "")
    attempt = Attempt(record.attempt, record.tag, record.worker, record.started, now, cause, event.peak, message)
    record.past.append(attempt)
    detach(state, record, now)
    sweep = state.sweeps[record.run.sweep]
    if state.braked or sweep.cancelled:
        end(state, record, RunState.STOPPED, state.braked or CANCELLED)
        return
    if cause is Loss.OUT_OF_MEMORY:
        undersized(state, record, attempt)
    match verdict(record, state.rules.kinds, state.rules.policies.retry):
        case GiveUp(reason):
            fail(state, record, reason)
        case Again() if sweep.refused:
            fail(state, record, f"{told(attempt)}; not run again: {sweep.refused}")
        case Again(after, tag, charged):
            if charged:
                text = used(record, attempt, state.rules.kinds, tag, after)
                state.alert("retry-used", text, record.run.id)
            record.tag = tag
            record.charged += charged
            record.handovers += not charged
            record.state, record.not_before = RunState.DELAYED, now + after
            state.tags[tag].returning += 1
            state.later(record.not_before, record.run.id)


def return_unbegun(state: State, record: RunRecord, now: float) -> None:
    """A run comes back from a worker on which it only waited: nothing has happened to it."""
    killed_for, reason = record.killed_for, record.reason
    detach(state, record, now)
    sweep = state.sweeps[record.run.sweep]
    if state.braked or sweep.cancelled:
        end(state, record, RunState.STOPPED, state.braked or CANCELLED)
    elif killed_for is Loss.OPERATOR:
        fail(state, record, by_operator(reason))
    elif sweep.refused:
        refuse(state, record, sweep.refused)
    else:
        starting.enqueue(state, record, first=True)


def detach(state: State, record: RunRecord, now: float) -> None:
    """The run no longer has its worker; the next in line there begins."""
    state.live -= 1
    state.count(record, active=False)
    state.tags[record.tag].queue.done(record)
    worker = state.workers[record.worker]
    if record.run.id in worker.ahead:
        workers.leave_line(state, worker, record.run.id)
    else:
        workers.vacate(state, worker, record.run.id, now)
        if worker.ahead:
            starting.next_in_line(state, worker, now)
    workers.release(state, worker)
    state.touched.add(record.tag)


def end(state: State, record: RunRecord, final: RunState, reason: str = "") -> None:
    assert record.state not in FINAL, f"{record.run.id} has ended before"
    record.state, record.reason = final, reason
    sweep = state.sweeps[record.run.sweep]
    sweep.left -= 1
    if sweep.left <= len(sweep.climbed):
        state.closing[sweep.sweep.id] = sweep
    name = final.value
    sweep.counts[name] = sweep.counts.get(name, 0) + 1
    state.out.append(RunEnded(record.run.id, final, reason))


def fail(state: State, record: RunRecord, reason: str) -> None:
    end(state, record, RunState.FAILED, reason)
    state.alert("run-failed", f"{record.run.id}: {reason}", record.run.id, Severity.ERROR)


def withdraw(state: State, record: RunRecord) -> None:
    """Take a run that is not on a worker out of wherever it waits."""
    sweep = state.sweeps[record.run.sweep]
    if record.state is RunState.QUEUED:
        state.tags[record.tag].queue.remove(record)
        state.count(record, active=False)
        state.touched.add(record.tag)
    elif record.state is RunState.DELAYED:
        state.tags[record.tag].returning -= 1
    elif record in sweep.climbed:
        sweep.climbed.remove(record)


def stop(state: State, record: RunRecord, reason: str, cause: Loss) -> None:
    """End a run without judging it; it can be resumed later. One that is on a worker is told to die for this cause."""
    if record.state.final:
        return
    if record.state in LIVE:
        if record.state is not RunState.KILLING or record.killed_for is Loss.STUCK:
            kill(state, record, cause)
        return
    withdraw(state, record)
    end(state, record, RunState.STOPPED, reason)


def kill(state: State, record: RunRecord, cause: Loss) -> None:
    record.state, record.killed_for = RunState.KILLING, cause
    record.kill_due = state.handled + KILL_WITHIN_S
    state.watch(record.kill_due, state.workers[record.worker])
    state.out.append(KillRun(record.run.id, record.attempt, record.worker, cause))


def refuse_rest(state: State, sweep: SweepRecord, reason: str) -> None:
    """Code that cannot be loaded once cannot be loaded at all: start nothing more of its sweep."""
    if sweep.refused or sweep.ended or sweep.cancelled or state.braked:
        return
    sweep.refused = reason
    count = 0
    for run in sweep.sweep.runs:
        record = state.runs[run.id]
        if record.state is RunState.GIVEN:
            kill(state, record, Loss.STOPPED)
        elif not record.state.final and record.state not in LIVE:
            withdraw(state, record)
            refuse(state, record, reason)
        else:
            continue
        count += 1
    text = f"{sweep.sweep.id}: its other {count} runs are not started either: {reason}"
    state.alert("cannot-start", text, severity=Severity.ERROR)


def refuse(state: State, record: RunRecord, reason: str) -> None:
    """End a run that will not be started, or not again."""
    end(state, record, RunState.FAILED if record.past else RunState.REFUSED, reason)


def undersized(state: State, record: RunRecord, attempt: Attempt) -> None:
    """Say it once when a size seems too small for the whole sweep; where its runs go is not changed by that."""
    seen = state.experience(record)
    seen.too_large.add(record.run.id)
    if attempt.peak is not None and (seen.peak is None or attempt.peak > seen.peak):
        seen.peak = attempt.peak
    if len(seen.too_large) >= UNDERSIZED_RUNS and not seen.finished and not seen.told:
        seen.told = True
        limit = state.rules.kinds[record.tag].has
        text = (
            f"{len(seen.too_large)} runs of {record.run.sweep} ran out of memory on {record.tag} and none has finished "
            f"there: {advice(seen.peak, limit)}"
        )
        state.alert("undersized", text)


# What follows a lost attempt, and the words for it


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
