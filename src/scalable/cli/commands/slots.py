"""``scalable slots``: which sweeps run or wait among all that share a store, and a slot that several runs share.

An outer scheduler that runs a sweep asset by asset takes one slot for all of it, names its holder in every run, and
gives the slot back at the end. If it never does, the slot is free a quarter of an hour after its last run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence

from scalable.cli import context
from scalable.cli.output import Cell, console, errors, note, print_json, show_table, working
from scalable.engine.events import SweepKind
from scalable.errors import UsageError
from scalable.planning.loads import sweep_load
from scalable.quantities import Duration
from scalable.session.machine import history
from scalable.session.sweep.slots import SHARED_LIFE_S, Slot, give_back
from scalable.store import Lease, Store, open_store
from scalable.sweeps.loading import store_url
from scalable.wording import plural, undefined


def run(options: argparse.Namespace) -> int:
    loaded = context.load(options)
    with open_store(store_url(loaded.manifest)) as store:
        if options.action == "list":
            if options.sweep or options.holder:
                raise UsageError("list shows all slots; leave out the rest, or write take or leave")
            return show(store.leases().list(), options)
        name = meant(options, loaded.manifest.sweeps)
        sized = context.with_profile(loaded, name, options.profile)
        kind = sweep_load(context.site(options, sized), name, history()).kind
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


def meant(options: argparse.Namespace, sweeps: Mapping[str, object]) -> str:
    example = f"scalable slots {options.action} {options.sweep or next(iter(sweeps), 'SWEEP')} --holder ID"
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


def show(slots: Sequence[Lease], options: argparse.Namespace) -> int:
    names = ("name", "kind", "holder", "held", "requested_at", "expires")
    if options.format == "json":
        listed = [{name: getattr(slot, name) for name in names} for slot in slots]
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
            str(Duration(max(0.0, slot.expires - now))), slot.holder,
        ]
        for slot in slots
    ]  # fmt: skip
    show_table(screen, ("sweep", "kind", "", ">asked before", ">free in", "holder"), rows, indent=2)
    screen.print()
    held = sum(slot.held for slot in slots)
    screen.print(note("·", f"{plural(held, 'slot')} held; one is free when its holder is silent for so long", "dim"))
    return 0
