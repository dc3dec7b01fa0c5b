"""The engine itself: takes an event, changes the state, answers with instructions.

Read ``handle`` first: it hands the event to its handler and then lets ``settle`` do whatever has become possible,
always in the same order: due retries, stuck runs, ends and admission of sweeps, the budget brake, starts, scaling.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from typing import Any

from scalable.engine import admission, fleet, retries, watch
from scalable.engine.events import (
    Alert,
    BoundsSet,
    CpuSeen,
    Event,
    Instruction,
    KillRun,
    Loss,
    OutsideWork,
    Paused,
    Progressed,
    Resumed,
    RowPersisted,
    RunEnded,
    RunFinished,
    RunLost,
    RunState,
    SpendChanged,
    StartRun,
    SweepAdmitted,
    SweepCancelled,
    SweepEnded,
    SweepKind,
    SweepSubmitted,
    Tick,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkersGivenUp,
    WorkersRefused,
    WorkersWithdrawn,
)
from scalable.engine.explain import explain
from scalable.engine.rules import KILL_WITHIN_S, Rules
from scalable.engine.state import NEVER, Attempt, RunRecord, State, SweepRecord, WorkerRecord

CANCELLED = "its sweep was cancelled"


class Engine:
    def __init__(self, rules: Rules) -> None:
        self.state = State(rules)
        self.out: list[Instruction] = []
        self.touched: set[str] = set()
        """Tags whose workers or queue changed since they were last scaled."""
        self.admission_due = False
        self.closing_due = False
        """A sweep may have nothing left to start."""
        self.handled = 0.0
        """When the last event came."""
        self.handlers: dict[type, Callable[[Any, float], None]] = {
            SweepSubmitted: self.on_submitted,
            SweepCancelled: self.on_cancelled,
            WorkerJoined: self.on_joined,
            WorkerLost: self.on_worker_lost,
            WorkerLeaving: self.on_leaving,
            WorkersRefused: self.on_refused,
            WorkersWithdrawn: self.on_withdrawn,
            RunFinished: self.on_finished,
            RunLost: self.on_run_lost,
            Progressed: self.on_progress,
            RowPersisted: self.on_row,
            CpuSeen: self.on_cpu,
            SpendChanged: self.on_spend,
            OutsideWork: self.on_outside,
            BoundsSet: self.on_bounds,
            Paused: self.on_paused,
            Resumed: self.on_resumed,
            Tick: lambda event, now: None,
        }

    def handle(self, event: Event, now: float) -> list[Instruction]:
        self.handled = now
        self.handlers[type(event)](event, now)
        self.settle(now)
        out, self.out = self.out, []
        return out

    def next_wake(self) -> float:
        """When a ``Tick`` is due if nothing else happens before; always later than the last event handled."""
        state = self.state
        when = state.delayed[0][0] if state.delayed else NEVER
        if state.watched and state.watched[0][0] < when:
            when = state.watched[0][0]
        for tag, record in state.tags.items():
            if record.idle or record.requested or record.queue.size or record.outside or record.minimum:
                when = min(when, fleet.wake(state, tag, record, self.handled))
        if not state.braked and state.spending.per_hour:
            when = min(when, state.spending.used_up_at())
        return when

    def explain(self, run: str, now: float) -> list[str]:
        """Why a run is where it is, in sentences: past attempts first, the present last."""
        return explain(self.state, run, now)

    # Sweeps

    def on_submitted(self, event: SweepSubmitted, now: float) -> None:
        sweep = event.sweep
        if twice := admission.submitted_before(sweep, self.state.sweeps, self.state.runs):
            self.out.append(Alert("duplicate-sweep", f"the sweep {sweep.id} is ignored: {twice}"))
            return
        record = SweepRecord(sweep, sweep.kind, order=len(self.state.sweeps), left=len(sweep.runs))
        self.state.sweeps[sweep.id] = record
        self.admission_due = self.closing_due = True
        self.state.runs |= {run.id: RunRecord(run, run.tag) for run in sweep.runs}
        problem = admission.impossible(sweep, self.state.rules)
        for run in sweep.runs if problem or self.state.braked else ():
            final = RunState.REFUSED if problem else RunState.STOPPED
            self.end(self.state.runs[run.id], final, problem or self.state.braked)

    def on_cancelled(self, event: SweepCancelled, now: float) -> None:
        record = self.state.sweeps.get(event.sweep)
        if record is None or record.ended:
            return
        record.cancelled = True
        for run in record.sweep.runs:
            one = self.state.runs[run.id]
            if one.state is RunState.RUNNING:
                self.kill(one, Loss.OPERATOR)
            elif not one.state.final and one.state is not RunState.KILLING:
                self.stop(one, CANCELLED)

    def admit(self) -> None:
        """Give places to waiting sweeps, in the order they came."""
        state = self.state
        waiting = sorted((s for s in state.sweeps.values() if not s.running and not s.ended), key=lambda s: s.order)
        for place, sweep in enumerate(waiting):
            holders = [(s.sweep.id, s.kind) for s in state.sweeps.values() if s.running]
            before = [(s.sweep.id, s.kind) for s in waiting[:place] if not s.running]
            sweep.waits_for = admission.obstacle(sweep.kind, holders, before, state.rules.policies.concurrency.normal)
            if sweep.waits_for:
                continue
            sweep.running = True
            self.out.append(SweepAdmitted(sweep.sweep.id, sweep.kind))
            climbed, sweep.climbed = sweep.climbed, []
            for record in climbed:
                self.enqueue(record)
            for run in sweep.sweep.runs if not climbed else ():
                record = state.runs[run.id]
                if record.state is RunState.HELD:
                    self.enqueue(record)

    def close_sweeps(self) -> None:
        """End sweeps with nothing left; give back the place of those that only wait for heavy work."""
        self.closing_due = False
        for sweep in self.state.sweeps.values():
            if sweep.ended:
                continue
            if sweep.left == 0:
                sweep.ended, sweep.running = True, False
                complete = sweep.counts.get(RunState.FINISHED.value, 0) == len(sweep.sweep.runs)
                self.out.append(SweepEnded(sweep.sweep.id, complete, dict(sweep.counts)))
                self.admission_due = True
            elif sweep.climbed and sweep.left == len(sweep.climbed) and sweep.running:
                sweep.kind, sweep.running = SweepKind.HEAVY, False
                self.admission_due = True

    # Runs

    def enqueue(self, record: RunRecord, *, first: bool = False) -> None:
        """Make a run startable, or hold it back until heavy work may run."""
        sweep = self.state.sweeps[record.run.sweep]
        if self.state.rules.kinds[record.tag].alone and sweep.kind is not SweepKind.HEAVY:
            record.state = RunState.HELD
            sweep.climbed.append(record)
            self.closing_due = True
            return
        record.state = RunState.QUEUED
        self.state.tags[record.tag].queue.put(record, first=first)
        self.state.count(record, active=True)
        self.touched.add(record.tag)

    def start_runs(self, tag: str, now: float) -> None:
        """Give queued runs to free workers; hands out no more than the free slots."""
        state, tags = self.state, self.state.tags[tag]
        allowed = None
        if state.spending.budget is not None:
            allowed = partial(fleet.startable, state, now)
        while tags.queue.size and (worker := self.free_worker(tag)) is not None:
            while worker.free and tags.queue.size:
                record = tags.queue.take(worker.group, allowed)
                if record is None:
                    return
                record.state, record.worker = RunState.RUNNING, worker.id
                record.attempt += 1
                record.started = record.sign = now
                record.reports, record.killed_for = False, None
                worker.group = (record.run.sweep, record.run.group)
                state.sweeps[record.run.sweep].live += 1
                fleet.occupy(state, worker, record.run.id)
                due = watch.due(record, worker, state.rules.policies.stuck)
                state.watch(due, record.run.id, record.attempt)
                self.out.append(StartRun(record.run.id, record.attempt, worker.id))

    def free_worker(self, tag: str) -> WorkerRecord | None:
        """An idle worker, else one with a free slot."""
        tags = self.state.tags[tag]
        if tags.idle:
            return self.state.workers[next(reversed(tags.idle))]
        if self.state.rules.kinds[tag].slots > 1:
            return next((w for w in self.state.workers.values() if w.tag == tag and w.free), None)
        return None

    def current(self, run: str, attempt: int) -> RunRecord | None:
        """The record of a live attempt; nothing for reports about attempts that are over."""
        record = self.state.runs.get(run)
        if record is None or record.attempt != attempt:
            return None
        return record if record.state in (RunState.RUNNING, RunState.KILLING) else None

    def on_finished(self, event: RunFinished, now: float) -> None:
        record = self.current(event.run, event.attempt)
        if record is not None:
            self.detach(record, now)
            self.end(record, RunState.FINISHED)

    def on_run_lost(self, event: RunLost, now: float) -> None:
        record = self.current(event.run, event.attempt)
        if record is not None:
            self.lost(record, event.cause, now, event)

    def lost(self, record: RunRecord, cause: Loss, now: float, event: RunLost | None = None) -> None:
        """Close the attempt and decide what follows."""
        state = self.state
        peak, message = (event.peak, event.message) if event else (None, "")
        record.past.append(
            Attempt(record.attempt, record.tag, record.worker, record.started, now, cause, peak, message)
        )
        self.detach(record, now)
        if state.braked or state.sweeps[record.run.sweep].cancelled:
            self.stop(record, state.braked or CANCELLED)
            return
        kind = state.rules.kinds[record.tag]
        match retries.verdict(record, kind, state.rules.policies.retry):
            case retries.GiveUp(reason):
                self.end(record, RunState.FAILED, reason)
                self.out.append(Alert("run-failed", f"{record.run.id}: {reason}", record.run.id))
            case retries.Again(after, tag, charged):
                record.tag = tag
                record.charged += charged
                record.handovers += not charged
                record.state, record.not_before = RunState.DELAYED, now + after
                state.tags[tag].returning += 1
                state.later(record.not_before, record.run.id)
                if charged:
                    climb = f" on {tag}" if tag != kind.tag else ""
                    text = f"{record.run.id} was lost ({cause.value}) and is run again{climb}: the size may be wrong"
                    self.out.append(Alert("retry-used", text, record.run.id))

    def detach(self, record: RunRecord, now: float) -> None:
        """The run no longer has its worker."""
        state = self.state
        state.sweeps[record.run.sweep].live -= 1
        state.count(record, active=False)
        state.tags[record.tag].queue.done(record)
        worker = state.workers.get(record.worker)
        if worker is not None:
            fleet.vacate(state, worker, record.run.id, now)
            self.release(worker)
        self.touched.add(record.tag)

    def end(self, record: RunRecord, final: RunState, reason: str = "") -> None:
        assert not record.state.final, f"{record.run.id} has ended before"
        record.state, record.reason = final, reason
        sweep = self.state.sweeps[record.run.sweep]
        sweep.left -= 1
        self.closing_due = self.closing_due or sweep.left <= len(sweep.climbed)
        sweep.counts[final.value] = sweep.counts.get(final.value, 0) + 1
        self.out.append(RunEnded(record.run.id, final, reason))

    def stop(self, record: RunRecord, reason: str) -> None:
        """End a run that is not on a worker without judging it; it can be resumed later."""
        sweep = self.state.sweeps[record.run.sweep]
        if record.state is RunState.QUEUED:
            self.state.tags[record.tag].queue.remove(record)
            self.state.count(record, active=False)
            self.touched.add(record.tag)
        elif record.state is RunState.DELAYED:
            self.state.tags[record.tag].returning -= 1
        elif record in sweep.climbed:
            sweep.climbed.remove(record)
        self.end(record, RunState.STOPPED, reason)

    def kill(self, record: RunRecord, cause: Loss) -> None:
        record.state, record.killed_for = RunState.KILLING, cause
        record.kill_due = self.handled + KILL_WITHIN_S
        self.state.watch(record.kill_due, record.run.id, record.attempt)
        self.out.append(KillRun(record.run.id, record.attempt, record.worker, cause))

    # Signs of life

    def on_progress(self, event: Progressed, now: float) -> None:
        record = self.current(event.run, event.attempt)
        if record is not None:
            sign = max(now, event.until or now)
            if sign < record.sign:  # a long step that was declared is over: the next look is due earlier
                self.state.watch(sign + self.state.rules.policies.stuck.after.seconds, event.run, event.attempt)
            record.sign, record.reports = sign, True

    def on_cpu(self, event: CpuSeen, now: float) -> None:
        record = self.current(event.run, event.attempt)
        if record is not None and not record.reports:
            record.sign = max(record.sign, now)

    def on_row(self, event: RowPersisted, now: float) -> None:
        worker = self.state.workers.get(event.worker)
        if worker is not None:
            worker.last_row = now

    def kill_stuck(self, now: float) -> None:
        state, policy = self.state, self.state.rules.policies.stuck
        while state.watched and state.watched[0][0] <= now:
            _, _, run, attempt = heapq.heappop(state.watched)
            record = self.current(run, attempt)
            if record is None:
                continue
            worker = state.workers[record.worker]
            if record.state is RunState.KILLING:
                self.remove_deaf(record, worker, now)
                continue
            due = watch.due(record, worker, policy)
            if due > now:
                state.watch(due, run, attempt)
                continue
            silence = now - max(record.sign, worker.last_row)
            text = f"{run} gave no sign of life for {silence:.0f} s on {record.worker}"
            if silence < policy.after.seconds:
                text = f"{run} never reported progress and reached the walltime of {policy.walltime} on {record.worker}"
            self.out.append(Alert("stuck", text, run))
            self.kill(record, Loss.STUCK)

    def remove_deaf(self, record: RunRecord, worker: WorkerRecord, now: float) -> None:
        """A run that was told to die and is not reported dead in time takes its worker with it."""
        if now >= record.kill_due and not worker.told:
            text = f"{record.run.id} was not killed within {KILL_WITHIN_S:.0f} s; its worker {worker.id} is removed"
            self.out.append(Alert("kill-late", text, record.run.id))
            self.out.append(fleet.dismiss(self.state, worker, "did not kill its run", forced=True))

    # Workers

    def on_joined(self, event: WorkerJoined, now: float) -> None:
        if event.tag not in self.state.tags:
            text = f"the worker {event.worker} has the unknown tag {event.tag!r}"
            self.out.append(Alert("unknown-tag", text))
            return
        fleet.join(self.state, event.worker, event.tag, now)
        self.touched.add(event.tag)

    def on_worker_lost(self, event: WorkerLost, now: float) -> None:
        record = self.state.workers.get(event.worker)
        if record is None:
            return
        fleet.retire(self.state, record)
        cause = Loss.STOPPED if record.told else event.cause  # whom we sent away for another run's sake
        record.told = True
        for run in sorted(record.runs):
            one = self.state.runs[run]
            told = RunLost(run, one.attempt, cause, event.peak, event.message)
            self.lost(one, one.killed_for or cause, now, told)
        self.out += fleet.died(self.state, record, cause, now)
        fleet.gone(self.state, record)
        self.touched.add(record.tag)

    def on_leaving(self, event: WorkerLeaving, now: float) -> None:
        record = self.state.workers.get(event.worker)
        if record is not None:
            fleet.retire(self.state, record)
            self.release(record)
            self.touched.add(record.tag)

    def release(self, record: WorkerRecord) -> None:
        """Do not keep, and pay, a worker that had notice until it is taken away."""
        if record.leaving and not record.told and not record.busy:
            self.out.append(fleet.dismiss(self.state, record, "had notice to leave", forced=True))

    def on_refused(self, event: WorkersRefused, now: float) -> None:
        if event.tag not in self.state.tags:
            return
        self.out += fleet.refused(self.state, event, now)
        tags = self.state.tags[event.tag]
        self.touched.add(event.tag)
        if fleet.hopeless(tags):
            for record in tags.queue.all():
                self.stop(record, f"no worker could be had: {event.reason}")
            self.out.append(WorkersGivenUp(event.tag, event.reason))

    def on_outside(self, event: OutsideWork, now: float) -> None:
        if event.tag in self.state.tags:
            fleet.outside(self.state, event, now)
            self.touched.add(event.tag)
            for worker in [w for w in self.state.workers.values() if w.leaving and w.tag == event.tag]:
                self.release(worker)

    def on_withdrawn(self, event: WorkersWithdrawn, now: float) -> None:
        if event.tag in self.state.tags:
            fleet.withdrawn(self.state, event, now)
            self.touched.add(event.tag)

    def on_bounds(self, event: BoundsSet, now: float) -> None:
        if event.tag in self.state.tags:
            record = self.state.tags[event.tag]
            record.minimum, record.maximum = event.minimum, event.maximum
            self.touched.add(event.tag)

    # Money and the operator

    def on_spend(self, event: SpendChanged, now: float) -> None:
        self.state.spending.report(event.spent, event.per_hour, event.wind_down, event.covered, now)

    def on_paused(self, event: Paused, now: float) -> None:
        self.state.paused = event.reason
        self.touched.update(self.state.tags)

    def on_resumed(self, event: Resumed, now: float) -> None:
        self.state.paused = ""
        self.touched.update(self.state.tags)

    def brake(self, now: float) -> None:
        """Stop everything when the money is used up, or when nothing more can be started with what is left."""
        state = self.state
        if now >= state.spending.used_up_at():
            self.pull_brake(f"the budget of {state.spending.budget} is used up")
        elif fleet.out_of_money(state, now):
            self.pull_brake(f"what is left of the budget of {state.spending.budget} is not enough for another run")

    def pull_brake(self, reason: str) -> None:
        state = self.state
        state.braked = reason
        self.out.append(Alert("budget", reason))
        for record in state.runs.values():
            if record.state is RunState.RUNNING:
                self.kill(record, Loss.STOPPED)
            elif not record.state.final and record.state is not RunState.KILLING:
                self.stop(record, reason)
        state.delayed.clear()

    # Whatever has become possible

    def settle(self, now: float) -> None:
        state = self.state
        if state.delayed:
            self.release_due(now)
        if state.watched and state.watched[0][0] <= now:
            self.kill_stuck(now)
        if self.closing_due:
            self.close_sweeps()
        while self.admission_due and not state.braked:
            self.admission_due = False
            self.admit()
            self.close_sweeps()
        if state.spending.budget is not None and not state.braked:
            self.brake(now)
        if state.braked:
            self.close_sweeps()
            self.out += fleet.remove_all(state)
        else:
            for tag, record in state.tags.items():
                if record.queue.size and not state.paused:
                    self.start_runs(tag, now)
        self.scale(now)

    def release_due(self, now: float) -> None:
        state = self.state
        while state.delayed and state.delayed[0][0] <= now:
            record = state.runs[heapq.heappop(state.delayed)[2]]
            if record.state is RunState.DELAYED:
                state.tags[record.tag].returning -= 1
                self.enqueue(record, first=True)

    def scale(self, now: float) -> None:
        state = self.state
        for tag, record in state.tags.items():
            due = tag in self.touched or record.queue.size or record.outside or record.idle or record.minimum
            if due and not state.braked:
                self.out += fleet.rescale(state, tag, now)
            late = record.requested and now >= record.requested_at + fleet.LATE_AFTER_S
            if late and not record.late_reported:
                record.late_reported = True
                text = f"{record.requested} × {tag} asked for {now - record.requested_at:.0f} s ago have not come"
                self.out.append(Alert("scale-up-late", text))
        self.touched.clear()
