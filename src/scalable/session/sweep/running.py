"""All that surrounds a sweep of a session: what is there, its slot among others, workers, and who is told of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from scalable.axes import value_text
from scalable.planning.loads import sweep_load
from scalable.planning.plan import Plan
from scalable.session.sweep.execution import SweepExecution, SweepRequest, ended
from scalable.session.sweep.outcomes import SweepOutcome, changed, lacking, outcome_of
from scalable.session.sweep.piloting import PilotTimes, sample
from scalable.session.sweep.slots import Slot, gone
from scalable.store import Row, Store, SweepStatus
from scalable.store.artefacts import open_artefacts
from scalable.store.tracking import Status, SweepRecord, Tracker, averaged, open_tracker
from scalable.store.tracking.tracker import OUTBOX
from scalable.sweeps.compiling import Compiled
from scalable.sweeps.grid import Cell
from scalable.sweeps.questions import question_of
from scalable.sweeps.results import Outcome

if TYPE_CHECKING:
    from scalable.observe.folders import RunFolder
    from scalable.session.session import ScalableSession

EVERYWHERE: Mapping[str, str] = {}
Watched = Callable[["RunFolder"], AbstractContextManager[object]]


def run_sweep(
    session: ScalableSession, name: str, plan: Plan | None, tell: Callable[[str], None], watched: Watched,
    where: Mapping[str, str] = EVERYWHERE, holder: str = "", *, pilot: bool = False,
) -> SweepOutcome:  # fmt: skip
    """See ``ScalableSession.run_sweep`` and ``run_pilot``."""
    times: PilotTimes | None = None

    def compile_rows() -> Compiled:
        nonlocal times
        whole = session.compile(name, store, where)
        if not pilot:
            return whole
        times = PilotTimes(whole.sharing(), len(whole.units))
        return whole.only(sample(whole))

    with session.open_store() as store:
        compiled = compile_rows()
        before = store.find(compiled.where)
        missing = lacking(compiled, before)
        if not missing:
            return outcome_of(compiled, before)
        if anew := changed(compiled, missing, store):
            tell(anew)
        plan = plan or session.plan_sweep(name)
        bounds = session.manifest.policies.pilot if pilot else None
        if pilot:
            plan = replace(plan, workers=min(plan.workers, len(compiled.units)))
        request = requested(session, name, plan)
        if bounds is not None:
            request = replace(request, limit_s=plan.ready_s + bounds.time.seconds)
        normal = session.manifest.policies.concurrency.normal
        artefacts = open_artefacts(request.artefacts)
        with (
            artefacts.using(name, compiled.artefact_keys()),
            open_tracker(session.manifest.tracking, outbox=session.manifest.folder / OUTBOX, tell=tell) as tracker,
            Slot(
                store, name, request.kind, normal, lambda why: tell(f"{name} waits: {why}"), holder, not where
            ) as slot,
        ):
            if not living_beside(store, slot):
                close_lost(store, slot)
            if slot.waited:  # what is locked or the data may be others by now
                compiled = compile_rows()
            before = store.find(compiled.where)  # another process may have computed some while this one waited
            request = replace(request, since=slot.since if holder else None)
            if not lacking(compiled, before, request.since):
                return outcome_of(compiled, before)
            with (
                artefacts.using(name, compiled.artefact_keys()) if slot.waited else nullcontext(),
                session.opened(plan, bounds.cost if bounds is not None else None) as driver,
                watched(session.folder),
                slot.held_for(driver),
                driver.measures.dependencies.used(tracker, artefacts),
            ):
                execution = SweepExecution(driver, compiled, store, replace(request, pilot=times), before)
                if pilot:  # what it leaves out is computed later
                    return carried_out(execution)
                session.judge(name, where, f"{name} did not come to its end")
                outcome = carried_out(execution)
                session.judge(name, where, outcome.why())
                track(tracker, session, compiled, store, outcome)
    return outcome


def carried_out(execution: SweepExecution) -> SweepOutcome:
    """Run a sweep and leave to other runs what it did not compute, also if it is interrupted."""
    try:
        return cast(SweepOutcome, execution.driver.cluster.sync(execution.run))
    finally:
        execution.release()


def living_beside(store: Store, slot: Slot) -> int:
    """Return how many other drivers compute the same sweep: who lives has a slot of the same name."""
    others = [lease for lease in store.leases().list() if lease.name == slot.name and lease.held]
    return sum(lease.token != slot.ticket.token and not gone(lease) for lease in others)


def close_lost(store: Store, slot: Slot) -> None:
    """End the runs of this sweep, none of whose drivers lives."""
    for run in store.runs(slot.name):
        own = slot.shared and run.started >= (slot.since or 0.0)  # of another task of the same holder
        if run.status is SweepStatus.RUNNING and not own:
            store.put_run(ended(run, SweepStatus.LOST, "its driver is gone"))


def requested(session: ScalableSession, name: str, plan: Plan) -> SweepRequest:
    site = session.site()
    load = sweep_load(site, name, session.history())
    known = load.expected.measured or load.sweep.run_minutes is not None
    return SweepRequest(
        tag=load.profile_name,
        kind=load.kind,
        workers=plan.workers,
        artefacts=session.artefacts(),
        expected_s=load.job_s if known and site.walltime(load.profile_name) is not None else None,
        peak=load.estimate.peak,
        target=session.spec().target_name,
        retry=load.sweep.retry and session.manifest.policies.retry_of(load.sweep.retry),
    )


def track(tracker: Tracker, session: ScalableSession, compiled: Compiled, store: Store, outcome: SweepOutcome) -> None:
    """Log the sweep where people look for experiments; from this process, never from one that trains."""
    if tracker.server is None:
        return
    rows = store.find(compiled.where)
    metrics, question = compiled.sweep.metrics, question_of(compiled.sweep)
    grid, chosen = compiled.grid, " ".join(compiled.chosen.values())
    result = Outcome(
        compiled.name, grid, compiled.expected, rows, compiled.baseline, metrics=metrics, question=question
    )
    lines = [flat(result, cell, row) for cell, row in result.there() if row.finished]
    axes = {**grid.compare, **{axis.name: axis.values for axis in grid.over}, **grid.average}
    params = {
        **{name: compiled.chosen.get(name) or ", ".join(map(value_text, values)) for name, values in axes.items()},
        **{name: value for name, value in grid.settings.items() if name in compiled.workload.reads},
        **{f"base.{name}": value for name, value in compiled.base_env.items()},
    }
    now = time.time()
    tracker.log(
        SweepRecord(
            id=f"{session.folder.run_id} {compiled.name}",
            experiment=session.manifest.project.name,
            name=f"{compiled.name} {chosen}" if chosen else compiled.name,
            started=now - outcome.seconds,
            ended=now,
            status=Status.FINISHED if outcome.complete else Status.FAILED,
            params=params,
            metrics=averaged(lines, result.metric_names),
            decision=verdicts(result, store, session) if not chosen else {},
            rows=lines,
        )
    )


def flat(result: Outcome, cell: Cell, row: Row) -> dict[str, Any]:
    """Return a row as a line of a table."""
    axes = result.grid.axes_of(cell)
    facts = {"variant": result.label(cell), **axes, "run_key": row.run_key, "elapsed_s": row.elapsed_s}
    return {**facts, **row.metrics, **facts}


def verdicts(outcome: Outcome, store: Store, session: ScalableSession) -> Mapping[str, Any]:
    from scalable.sweeps.ledger import control_of, decide_without_recording

    if len(outcome.variants) < 2 or not outcome.finished:
        return {}
    decision = decide_without_recording(outcome, store, control_of(session.manifest))
    return {f"verdict.{judgement.variant}": judgement.verdict.value for judgement in decision.variants}
