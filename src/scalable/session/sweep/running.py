"""All that surrounds a sweep of a session: what is there, its slot among others, workers, and who is told of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from scalable.planning.loads import sweep_load
from scalable.planning.plan import Plan
from scalable.session.sweep.execution import Request, SweepExecution, ended
from scalable.session.sweep.outcomes import SweepOutcome, changed, lacking, outcome_of
from scalable.session.sweep.piloting import sample
from scalable.session.sweep.slots import Slot, gone
from scalable.store import Row, Store, SweepStatus
from scalable.store.artefacts import open_artefacts
from scalable.store.tracking import Status, SweepRecord, Tracker, averaged, open_tracker
from scalable.store.tracking.tracker import OUTBOX
from scalable.sweeps.compiling import Compiled
from scalable.sweeps.results import Outcome

if TYPE_CHECKING:
    from scalable.observe.folders import RunFolder
    from scalable.session.session import ScalableSession

Watched = Callable[["RunFolder"], AbstractContextManager[object]]


def run_sweep(
    session: ScalableSession, name: str, plan: Plan | None, tell: Callable[[str], None], watched: Watched,
    asset: str | None = None, holder: str = "", *, pilot: bool = False,
) -> SweepOutcome:  # fmt: skip
    """See ``ScalableSession.run_sweep`` and ``run_pilot``."""

    def compile_rows() -> Compiled:
        whole = session.compile(name, store, asset)
        return whole.only(sample(whole)) if pilot else whole

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
            request = replace(request, pilot=True, limit_s=plan.ready_s + bounds.time.seconds)
        normal = session.manifest.policies.concurrency.normal
        artefacts = open_artefacts(request.artefacts)
        with (
            artefacts.using(name, compiled.artefact_keys()),
            open_tracker(session.manifest.tracking, outbox=session.manifest.folder / OUTBOX, tell=tell) as tracker,
            Slot(
                store, name, request.kind, normal, lambda why: tell(f"{name} waits: {why}"), holder, asset is None
            ) as slot,
        ):
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
                execution = SweepExecution(driver, compiled, store, request, before)
                if pilot:  # what it leaves out is computed later
                    return cast(SweepOutcome, driver.cluster.sync(execution.run))
                session.judge(name, asset, f"{name} did not come to its end")
                outcome: SweepOutcome = driver.cluster.sync(execution.run)
                session.judge(name, asset, outcome.why())
                track(tracker, session, compiled, store, outcome)
    return outcome


def close_lost(store: Store, slot: Slot) -> None:
    """End the runs of this sweep whose drivers are gone. Who lives has a slot of the same name."""
    others = [lease for lease in store.leases().list() if lease.name == slot.name and lease.held]
    if any(lease.token != slot.ticket.token and not gone(lease) for lease in others):
        return
    for run in store.runs(slot.name):
        own = slot.shared and run.started >= (slot.since or 0.0)  # of another task of the same holder
        if run.status is SweepStatus.RUNNING and not own:
            store.put_run(ended(run, SweepStatus.LOST, "its driver is gone"))


def requested(session: ScalableSession, name: str, plan: Plan) -> Request:
    load = sweep_load(session.site(), name, session.history())
    return Request(
        tag=load.profile_name,
        kind=load.kind,
        workers=plan.workers,
        artefacts=session.artefacts(),
        peak=load.estimate.peak,
        target=session.spec().target_name,
        retry=load.sweep.retry and session.manifest.policies.retry_of(load.sweep.retry),
    )


def track(tracker: Tracker, session: ScalableSession, compiled: Compiled, store: Store, outcome: SweepOutcome) -> None:
    """Log the sweep where people look for experiments; from this process, never from one that trains."""
    if tracker.server is None:
        return
    rows = store.find(compiled.where)
    metrics = compiled.sweep.metrics
    found = Outcome(compiled.name, compiled.expected, rows, compiled.baseline, metrics=metrics)
    lines = [flat(row) for row in rows.values() if row.finished]
    grid = compiled.grid
    params = {
        "factor": grid.factor, "variants": ", ".join(map(str, grid.variants)),
        "assets": compiled.asset or ", ".join(grid.assets),
        "folds": grid.folds, "costs_bps": ", ".join(f"{cost:g}" for cost in grid.costs_bps), "trials": grid.trials,
        "seed": grid.seed, **{f"base.{name}": value for name, value in compiled.base_env.items()},
    }  # fmt: skip
    now = time.time()
    tracker.log(
        SweepRecord(
            id=f"{session.folder.run_id} {compiled.name}",
            experiment=session.manifest.project.name,
            name=f"{compiled.name} {compiled.asset}" if compiled.asset else compiled.name,
            started=now - outcome.seconds,
            ended=now,
            status=Status.FINISHED if outcome.complete else Status.FAILED,
            params=params,
            metrics=averaged(lines, found.metric_names),
            decision=verdicts(found) if compiled.asset is None else {},
            rows=lines,
        )
    )


def flat(row: Row) -> dict[str, Any]:
    """A row as a line of a table."""
    facts = {name: getattr(row, name) for name in ("variant", "asset", "fold", "cost_bps", "run_key", "elapsed_s")}
    return {**facts, **row.metrics, **facts}


def verdicts(found: Outcome) -> Mapping[str, Any]:
    from scalable.sweeps.gates import decide

    if len(found.variants) < 2 or not found.finished:
        return {}
    return {f"verdict.{one.variant}": one.verdict.value for one in decide(found).variants}
