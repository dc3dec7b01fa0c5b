"""The ends of jobs: finished, stopped, refused or killed; or lost, and then perhaps tried again.

A deterministic error would come again, so it is not retried. An attempt that ran out of memory goes to a larger
profile or nowhere. Being preempted, reaching a walltime or being stopped by us is not the job's fault and costs no
retry, within a bound that ends work which never fits into its time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scalable.engine import starting, walltime, workers
from scalable.engine.events import FINAL, JobEnded, JobFinished, JobLost, JobState, KillJob, Loss
from scalable.engine.rules import ANY_MEMORY, KILL_WITHIN_S, WorkerKind
from scalable.engine.state import Attempt, JobRecord, State, SweepState
from scalable.findings import Severity
from scalable.manifest.work import Retry as Policy
from scalable.quantities import Duration, Memory

CANCELLED = "its sweep was cancelled"
LIVE = (JobState.GIVEN, JobState.RUNNING, JobState.KILLING)
NOT_BEGUN = (Loss.STOPPED, Loss.OPERATOR)  # how a worker reports a job that it was told to forget

MAX_HANDOVERS = 10  # free moves before a job is given up; a job longer than its walltime would move for ever
MAX_STANDSTILLS = 3  # the same for one that says how far it is and got no further each time
MAX_CRASHES = 2  # a bad node or a race in a library may crash a process once; what crashes again would go on doing so
DOUBLINGS = 50  # of a delay, which are enough for any cap, and not too many for a number
UNDERSIZED_JOBS = 2  # one that runs out of memory may be an exception

NOT_RETRIED = frozenset({Loss.RAISED, Loss.CANNOT_START, Loss.OPERATOR})
FREE = frozenset({Loss.PREEMPTED, Loss.WALLTIME, Loss.STOPPED, Loss.WORKER_CRASHED})
OVERRULED = frozenset({Loss.STUCK, Loss.TIMED_OUT})  # causes of a kill that give way to an operator, or to the budget
UNCHARGED = FREE | {Loss.OPERATOR}  # the end of an attempt after which another driver has as many retries as before
SILENT = frozenset({Loss.WORKER_LOST, Loss.KILLED})  # ends that a system short of memory causes, too

SUSPICIOUS = 0.9  # of the limit, from which a silent end looks like one for memory


def current(state: State, job: str, attempt: int) -> JobRecord | None:
    """Return the record of a live attempt, or None for reports about attempts that are over."""
    record = state.jobs.get(job)
    if record is None or record.attempt != attempt:
        return None
    return record if record.state in LIVE else None


def on_finished(state: State, event: JobFinished, now: float) -> None:
    record = current(state, event.job, event.attempt)
    if record is not None:
        experience = state.experience(record)
        experience.finished += 1
        if event.seconds is not None:
            experience.pace.note(event.seconds)
            experience.longest_s = max(experience.longest_s, event.seconds)
            state.tags[record.tag].pace.note(event.seconds)
            if experience.pace.window:
                state.vacated.append(state.workers[record.worker])
        detach(state, record, now)
        end(state, record, JobState.FINISHED)


def on_lost(state: State, event: JobLost, now: float) -> None:
    record = current(state, event.job, event.attempt)
    if record is None:
        return
    if event.job in state.workers[record.worker].ahead and event.cause in NOT_BEGUN:
        return_unbegun(state, record, now)
        return
    pace = state.experience(record).pace
    if pace.known and event.seconds is not None and event.seconds > pace.mean:  # a quick failure tells nothing
        pace.note(event.seconds)
    lost(state, record, event, now)
    if record.past[-1].cause is Loss.CANNOT_START:
        refuse_rest(state, state.sweeps[record.job.sweep], record.reason)


def lost(state: State, record: JobRecord, event: JobLost, now: float) -> None:
    """Close an attempt that had begun and decide what follows."""
    worker = state.workers[record.worker]
    cause = Loss.OPERATOR if record.killed_for is Loss.OPERATOR else walltime.cause_of_end(worker, event.cause, now)
    message = event.message or (record.reason if cause is Loss.OPERATOR else "")
    attempt = Attempt(record.attempt, record.tag, record.worker, record.started, now, cause, event.peak, message)
    record.past.append(attempt)
    detach(state, record, now)
    sweep = state.sweeps[record.job.sweep]
    if state.braked or sweep.cancelled:
        end(state, record, JobState.STOPPED, state.braked or CANCELLED)
        return
    if cause is Loss.OUT_OF_MEMORY:
        note_undersized(state, record, attempt)
    further = cause in FREE and walltime.learn_from_cut(state, record, attempt, worker.span)
    match verdict(record, state.rules.kinds, state.retry(sweep.sweep)):
        case GiveUp(reason):
            fail(state, record, reason)
        case Again() if sweep.refused:
            fail(state, record, f"{loss_text(attempt)}; not run again: {sweep.refused}")
        case Again(after, tag, charged):
            if charged:
                text = retry_text(record, attempt, state.rules.kinds, tag, after)
                state.alert("retry-used", text, record.job.id)
            record.tag = tag
            record.charged += charged
            record.handovers += not (charged or further)
            record.state, record.not_before = JobState.DELAYED, now + after
            state.tags[tag].returning += 1
            state.later(record.not_before, record.job.id)


def return_unbegun(state: State, record: JobRecord, now: float) -> None:
    """Take a job back from a worker on which it only waited: nothing has happened to it."""
    killed_for, reason = record.killed_for, record.reason
    detach(state, record, now)
    sweep = state.sweeps[record.job.sweep]
    if state.braked or sweep.cancelled:
        end(state, record, JobState.STOPPED, state.braked or CANCELLED)
    elif killed_for is Loss.OPERATOR:
        fail(state, record, operator_text(reason))
    elif sweep.refused:
        refuse(state, record, sweep.refused)
    else:
        starting.enqueue(state, record, first=True)


def detach(state: State, record: JobRecord, now: float) -> None:
    """Take a job off its worker and let the next in line there begin."""
    state.live -= 1
    state.count(record, active=False)
    state.tags[record.tag].queue.done(record)
    worker = state.workers[record.worker]
    if record.job.id in worker.ahead:
        workers.leave_line(state, worker, record.job.id)
    else:
        workers.vacate(state, worker, record.job.id, now)
        if worker.ahead:
            starting.next_in_line(state, worker, now)
    workers.release(state, worker)
    state.touched.add(record.tag)


def end(state: State, record: JobRecord, final: JobState, reason: str = "") -> None:
    assert record.state not in FINAL, f"{record.job.id} has ended before"
    record.state, record.reason = final, reason
    sweep = state.sweeps[record.job.sweep]
    sweep.left -= 1
    if sweep.left <= len(sweep.climbed):
        state.closing[sweep.sweep.id] = sweep
    name = final.value
    sweep.counts[name] = sweep.counts.get(name, 0) + 1
    state.out.append(JobEnded(record.job.id, final, reason))


def fail(state: State, record: JobRecord, reason: str) -> None:
    end(state, record, JobState.FAILED, reason)
    state.alert("run-failed", f"{record.job.id}: {reason}", record.job.id, Severity.ERROR)


def withdraw(state: State, record: JobRecord) -> None:
    """Take a job that is not on a worker out of wherever it waits."""
    sweep = state.sweeps[record.job.sweep]
    if record.state is JobState.QUEUED:
        state.tags[record.tag].queue.remove(record)
        state.count(record, active=False)
        state.touched.add(record.tag)
    elif record.state is JobState.DELAYED:
        state.tags[record.tag].returning -= 1
    elif record in sweep.climbed:
        sweep.climbed.remove(record)


def stop(state: State, record: JobRecord, reason: str, cause: Loss) -> None:
    """End a job without judging it; it can be resumed later. One that is on a worker is told to die for this cause."""
    if record.state.final:
        return
    if record.state in LIVE:
        if record.state is not JobState.KILLING or record.killed_for in OVERRULED:
            kill(state, record, cause)
        return
    withdraw(state, record)
    end(state, record, JobState.STOPPED, reason)


def kill(state: State, record: JobRecord, cause: Loss) -> None:
    record.state, record.killed_for = JobState.KILLING, cause
    record.kill_due = state.handled + KILL_WITHIN_S
    state.watch(record.kill_due, state.workers[record.worker])
    state.out.append(KillJob(record.job.id, record.attempt, record.worker, cause))


def refuse_rest(state: State, sweep: SweepState, reason: str) -> None:
    """Start nothing more of a sweep: code that cannot be loaded once cannot be loaded at all."""
    if sweep.refused or sweep.ended or sweep.cancelled or state.braked:
        return
    sweep.refused = reason
    count = 0
    for job in sweep.sweep.jobs:
        record = state.jobs[job.id]
        if record.state is JobState.GIVEN:
            kill(state, record, Loss.STOPPED)
        elif not record.state.final and record.state not in LIVE:
            withdraw(state, record)
            refuse(state, record, reason)
        else:
            continue
        count += 1
    text = f"{sweep.sweep.id}: its other {count} jobs are not started either: {reason}"
    state.alert("cannot-start", text, severity=Severity.ERROR)


def refuse(state: State, record: JobRecord, reason: str) -> None:
    """End a job that will not be started, or not again."""
    end(state, record, JobState.FAILED if record.past else JobState.REFUSED, reason)


def note_undersized(state: State, record: JobRecord, attempt: Attempt) -> None:
    """Report once that a size seems too small for the whole sweep; where its jobs go is not changed by that."""
    experience = state.experience(record)
    experience.too_large.add(record.job.id)
    if attempt.peak is not None and (experience.peak is None or attempt.peak > experience.peak):
        experience.peak = attempt.peak
    if len(experience.too_large) >= UNDERSIZED_JOBS and not experience.finished and not experience.reported:
        experience.reported = True
        limit = state.rules.kinds[record.tag].has
        text = (
            f"{len(experience.too_large)} jobs of {record.job.sweep} ran out of memory on {record.tag} "
            f"and none has finished there: {advice(experience.peak, limit)}"
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


def verdict(record: JobRecord, kinds: Mapping[str, WorkerKind], policy: Policy) -> Again | GiveUp:
    """Decide on the last attempt in ``record.past``."""
    last, kind = record.past[-1], kinds[record.tag]
    detail = f": {last.message}" if last.message else ""
    if last.cause in NOT_RETRIED:
        return GiveUp(loss_text(last))
    if last.cause in FREE:
        if record.too_long:
            return GiveUp(record.too_long)
        if record.job.checkpoints and record.step is not None and record.handovers >= MAX_STANDSTILLS:
            times = f"moved {record.handovers} times without getting further than step {record.step:g}"
            return GiveUp(f"{last.cause.value}: {times}; write a checkpoint more often, or ask for a longer walltime")
        if record.handovers >= MAX_HANDOVERS:
            remedy = "run it alone" if last.cause is Loss.WORKER_CRASHED else "give it a longer walltime"
            return GiveUp(f"{last.cause.value} {record.handovers} times without finishing; {remedy}")
        return Again(0.0, record.tag, charged=False)
    if last.cause is Loss.OUT_OF_MEMORY and kind.larger is None:
        suggestion = f"; {advice(last.peak, kind.has)}" if last.peak else ""
        where = f" ({last.message})" if last.message else ""
        return GiveUp(f"out of memory and no larger profile exists: {peaks(record.past, kinds)}{suggestion}{where}")
    crashes = sum(attempt.cause is Loss.CRASHED for attempt in record.past)
    if record.charged >= policy.times or (last.cause is Loss.CRASHED and crashes >= MAX_CRASHES):
        count = record.job.charged + len(record.past)
        tries = f"after {count} attempts" if count > 1 else "and no retry is allowed"
        memory = f" ({peaks(record.past, kinds)})" if last.cause is Loss.OUT_OF_MEMORY else ""
        return GiveUp(f"{last.cause.value} {tries}{detail}{memory}{suspicion(last, kind.has)}")
    delay = min(policy.delay.seconds * 2.0 ** min(record.charged, DOUBLINGS), policy.cap.seconds)
    tag = kind.larger if last.cause is Loss.OUT_OF_MEMORY and kind.larger else record.tag
    return Again(delay, tag, charged=True)


def retry_text(record: JobRecord, last: Attempt, kinds: Mapping[str, WorkerKind], tag: str, after_s: float) -> str:
    """Say that a retry is used: the cause and, if that is memory, the size to ask for."""
    when = f"is run again in {Duration(after_s)}"
    if last.cause is Loss.OUT_OF_MEMORY:
        limit = kinds[last.tag].has
        where = f"on {tag}, which has {kinds[tag].has}"
        return f"{record.job.id}: out of memory ({peaks([last], kinds)}), {when} {where}; {advice(last.peak, limit)}"
    return f"{record.job.id}: {loss_text(last)}, {when}{suspicion(last, kinds[last.tag].has)}"


def loss_text(attempt: Attempt) -> str:
    return f"{attempt.cause.value}: {attempt.message}" if attempt.message else attempt.cause.value


def operator_text(reason: str) -> str:
    return f"{Loss.OPERATOR.value}: {reason}" if reason else Loss.OPERATOR.value


def peaks(past: Sequence[Attempt], kinds: Mapping[str, WorkerKind]) -> str:
    """Say what each attempt used of what it had where: ``9 GiB of 8 GiB on standard, 25 GiB of 24 GiB on heavy``."""
    lost = [attempt for attempt in past if attempt.cause is Loss.OUT_OF_MEMORY]
    return ", ".join(
        f"{attempt.peak or 'an unknown peak'} of {kinds[attempt.tag].has} on {attempt.tag}" for attempt in lost
    )


def advice(peak: Memory | None, limit: Memory) -> str:
    size = Memory.to_ask_for(peak, limit if limit < ANY_MEMORY else None)
    return f"{'' if peak else 'its peak is not known, '}ask for {size or 'more'}"


def suspicion(attempt: Attempt, limit: Memory) -> str:
    peak = attempt.peak
    if attempt.cause not in SILENT or peak is None or peak.bytes < SUSPICIOUS * limit.bytes:
        return ""
    return f"; memory is suspected, it used {peak} of {limit}: {advice(peak, limit)}"
