"""``scalable ops slots``: which sweeps run or wait among all that share a store, and a slot that several runs share.

An outer scheduler that runs a sweep asset by asset takes one slot for all of it, names its holder in every run, and
gives the slot back at the end. If it never does, the slot is free a quarter of an hour after its last run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote

from scalable.cli import context
from scalable.cli.output import Cell, console, errors, note, print_json, show_table, working
from scalable.engine.events import SweepKind
from scalable.errors import UsageError
from scalable.observe import runs_dir
from scalable.observe.liveness import running
from scalable.planning.loads import sweep_load
from scalable.quantities import Duration
from scalable.session.machine import history
from scalable.session.sweep.slots import SHARED_LIFE_S, Slot, give_back, tell_to_stop
from scalable.store import Lease, Store
from scalable.sweeps.loading import open_results
from scalable.wording import plural, undefined


def run(options: argparse.Namespace) -> int:
    loaded = context.load(options)
    if options.action == "list" and (options.sweep or options.holder):
        raise UsageError("list shows all slots; leave out the rest, or write take, leave or stop")
    if options.action == "stop" and (not options.sweep or options.holder):
        raise UsageError("who shall wait no more? write  scalable ops slots stop HOLDER  or the id of its run")
    path = context.manifest_path(options.manifest)
    name = meant(options, loaded.manifest.sweeps) if options.action in ("take", "leave") else ""
    with open_results(loaded.manifest, create=options.action == "take") as store:
        if options.action == "list":
            return show(store.leases().list(), runs_by_holder(path), options)
        if options.action == "stop":
            return stop(store, runs_by_holder(path), options)
        sized = context.with_profile(loaded, name, options.profile)
        kind = sweep_load(context.site(options, sized), name, history(path)).kind
        if options.action == "take":
            take(store, name, kind, loaded.manifest.policies.concurrency.normal, options.holder)
            outcome = (
                f"{name} may run as {options.holder}: its slot is kept {Duration(SHARED_LIFE_S)} after its last run"
            )
        else:
            give_back(store, name, kind, options.holder)
            outcome = f"{name} has no slot as {options.holder} any more"
    if options.format == "json":
        print_json({"sweep": name, "holder": options.holder, "held": options.action == "take"})
    else:
        console().print(outcome, soft_wrap=True, markup=False)
    return 0


def runs_by_holder(manifest: Path) -> dict[str, str]:
    """Return the ids of runs that are recorded here and running, by the name that their slots have."""
    facts = {run.run_id: run.facts() for run in running(runs_dir(manifest=manifest))}
    return {f"{each.get('host')}:{each.get('pid')}": run_id for run_id, each in facts.items()}


def stop(store: Store, runs: Mapping[str, str], options: argparse.Namespace) -> int:
    holder = next((holder for holder, run_id in runs.items() if run_id == options.sweep), options.sweep)
    stopped = [lease.name for lease in tell_to_stop(store, holder)]
    if options.format == "json":
        print_json({"holder": holder, "sweeps": stopped})
    else:
        console().print(f"{holder} is told to wait no more for {', '.join(stopped)}", soft_wrap=True, markup=False)
    return 0


def meant(options: argparse.Namespace, sweeps: Mapping[str, object]) -> str:
    example = f"scalable ops slots {options.action} {quote(options.sweep or next(iter(sweeps), 'SWEEP'))} --holder ID"
    if not options.sweep or not options.holder:
        raise UsageError(f"which sweep, and for whom? write  {example}")
    if options.sweep not in sweeps:
        raise UsageError(undefined("sweep", options.sweep, sweeps))
    return str(options.sweep)


def take(store: Store, name: str, kind: SweepKind, normal: int, holder: str) -> None:
    """Wait until the slot is held, and say why it is waited for, each reason once."""

    def tell(why: str) -> None:
        errors().print(f"{name} waits: {why}", soft_wrap=True, markup=False)

    with working("waiting for a slot"), Slot(store, name, kind, normal, tell, holder):
        pass  # it stays when this process has gone


def show(slots: Sequence[Lease], runs: Mapping[str, str], options: argparse.Namespace) -> int:
    names = ("name", "kind", "holder", "held", "requested_at", "expires")
    if options.format == "json":
        listed = [{**{name: getattr(slot, name) for name in names}, "run_id": runs.get(slot.holder)} for slot in slots]
        print_json({"slots": listed, "places": listed})  # by its old name, too, for one version
        return 0
    screen = console()
    if not slots:
        screen.print("no sweep runs or waits")
        return 0
    now = time.time()
    rows: list[list[Cell]] = [
        [
            slot.name, slot.kind, "runs" if slot.held else "waits", str(Duration(max(0.0, now - slot.requested_at))),
            str(Duration(max(0.0, slot.expires - now))), slot.holder, runs.get(slot.holder, ""),
        ]
        for slot in slots
    ]  # fmt: skip
    show_table(screen, ("sweep", "kind", "", ">asked before", ">free in", "holder", "run"), rows, indent=2)
    screen.print()
    held = sum(slot.held for slot in slots)
    screen.print(note("·", f"{plural(held, 'slot')} held; one is free when its holder is silent for so long", "dim"))
    return 0
