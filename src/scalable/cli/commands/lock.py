"""``scalable lock``: a variant that won becomes part of the base configuration; ``--undo`` and ``--list`` with it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from shlex import quote
from textwrap import shorten as shortened
from typing import Any

from rich.console import Console
from rich.text import Text

from scalable.cli.commands.results import opened
from scalable.cli.output import Cell, console, errors, note, print_json, show_table, working
from scalable.errors import UsageError
from scalable.manifest.models import Manifest
from scalable.observe.words import stamp
from scalable.plugins import factors
from scalable.store import Config
from scalable.sweeps import locking
from scalable.sweeps.ledger import control_of, decide_without_recording, record_lock, record_untested_lock
from scalable.sweeps.loading import outcome
from scalable.sweeps.results import Outcome, Variant, same
from scalable.wording import command, undefined

UNKNOWN = "–"
SHORTEST = 24  # characters of a reason in the list; as many as make a lock one line, for machines get all


def run(options: argparse.Namespace) -> int:
    check(options)
    with opened(options, create=not options.list) as (manifest, store, folder):
        if options.list:
            history = store.config_history()
            return show_list(options, store.config(), history)
        if options.undo:
            return show_change(options, manifest, locking.undo(store, options.reason or ""))
        sweep = sweep_of(manifest, options.factor, options.sweep)
        if sweep is None:
            factor = next(each for each in factors() if each.name == options.factor)
            variant = variant_of(options.variant, factor.variants, f"factor {factor.name}")
            forced = {"force": options.force, "reason": options.reason or ""}
            locked = locking.lock_untested(store, factor.name, variant, factor.variants[0], **forced)
            problem = ""
            if locked.changed and options.force:
                config = locked.config
                problem = record_untested_lock(store, factor.name, variant, config.reason, config.version)
            return show_change(options, manifest, locked, problem)
        base = store.config()
        with working("comparing"):
            results = outcome(manifest, sweep, store, folder)
            decision = decide_without_recording(results, store, control_of(manifest))
        variant = variant_of(options.variant, results.variants, f"sweep {sweep}")
        values = values_of(results, variant)
        forced = {"force": options.force, "reason": options.reason or ""}
        locked = locking.lock(store, decision, variant, on=base, values=values, **forced)
        problem = ""
        if locked.changed:
            problem = record_lock(store, decision, variant, locked.config.reason, forced=options.force)
        return show_change(options, manifest, locked, problem)


def values_of(results: Outcome, variant: Variant) -> dict[str, Variant]:
    """Return the values on the compared axes of a variant by what it is called."""
    grid = results.grid
    values = next(each for each in grid.variants if same(grid.label(each)) == same(variant))
    return dict(zip(grid.compare, values, strict=True))


def check(options: argparse.Namespace) -> None:
    named = options.factor is not None
    if options.list or options.undo:
        if named or (options.list and options.undo) or options.force or options.sweep:
            raise UsageError("--list and --undo go alone; write e.g.  scalable lock --undo --reason TEXT")
    elif not named or options.variant is None:
        raise UsageError("name a factor and its variant, e.g.  scalable lock calibration isotonic")


def sweep_of(manifest: Manifest, factor: str, named: str | None) -> str | None:
    """Return the sweep whose decision counts: the one that is named, else the one that varies the factor.

    None where no sweep varies a factor of a plug-in.
    """
    if named is not None:
        if named not in manifest.sweeps:
            raise UsageError(undefined("sweep", named, manifest.sweeps))
        varied = manifest.sweeps[named].factor
        if factor not in (varied, named):
            raise UsageError(f"sweep {named} varies {varied}, not {factor}; write  scalable lock {quote(varied)} …")
        return named
    those = [name for name, sweep in manifest.sweeps.items() if sweep.factor == factor]
    if not those:
        if factor in manifest.sweeps:
            return factor
        if any(each.name == factor for each in factors()):
            return None
        raise UsageError(undefined("factor", factor, {sweep.factor for sweep in manifest.sweeps.values()}))
    if len(those) > 1 and factor not in those:
        raise UsageError(
            f"{', '.join(those)} all vary {factor}; say whose decision counts with --sweep {quote(those[0])}"
        )
    return factor if factor in those else those[0]


def variant_of(written: str, variants: Sequence[Variant], whose: str) -> Variant:
    """Return the own variant of a sweep or factor for what was written: ``80`` is a number where the sweep has one."""
    spelt = {spelling: each for each in variants for spelling in spellings(each)}
    if written not in spelt:
        raise UsageError(f"{undefined('variant', written, map(str, variants))} (of {whose})")
    return spelt[written]


def spellings(variant: Variant) -> set[str]:
    if isinstance(variant, bool):
        return {str(variant), str(variant).lower()}
    return {str(variant), f"{variant:g}"} if isinstance(variant, int | float) else {variant}


def show_change(options: argparse.Namespace, manifest: Manifest, locked: locking.Locked, problem: str = "") -> int:
    """Show the configuration after a lock or an undo; ``problem`` is why the ledger does not have the lock."""
    config = locked.config
    if problem:
        errors().print(f"the lock is not in the ledger, which could not be written: {problem}", soft_wrap=True)
    if options.format == "json":
        print_json({"changed": locked.changed, **as_dict(config)})
        return 0
    screen = console()
    if not locked.changed:
        screen.print(f"{options.factor} {options.variant} is locked already", soft_wrap=True)
    elif options.undo:
        now = "as it was before any lock" if config.variant is None else f"back at {config.variant}"
        screen.print(f"{config.reason}: {config.factor} is {now}", soft_wrap=True)
    else:
        screen.print(Text.assemble("locked ", (f"{config.factor} {config.variant}", "bold green")), soft_wrap=True)
        screen.print(note("·", config.reason, "dim"))
    show_base(screen, config)
    done = {*config.base_env, config.factor}
    open_factors = [name for name, sweep in manifest.sweeps.items() if sweep.factor not in done]
    if open_factors:
        screen.print(note("▸", f"{command('run', open_factors[0])}  runs the next factor on this base", "bold"))
    return 0


def show_base(screen: Console, config: Config) -> None:
    base = ", ".join(f"{name} {value}" for name, value in config.base_env.items()) or "nothing is locked"
    screen.print(note("·", f"base of every further sweep: {base} (version {config.version})", "dim"))
    if config.base_env:
        screen.print(note("·", "scalable lock --undo  goes one lock back; --list  shows all", "dim"))


def show_list(options: argparse.Namespace, config: Config, history: Sequence[Config]) -> int:
    standing = {each.version for each in locking.in_force(history)}
    if options.format == "json":
        entries = [{**as_dict(each), "in_force": each.version in standing} for each in history]
        print_json({"current": as_dict(config), "history": entries})
        return 0
    screen = console()
    rows: list[list[Cell]] = [
        [
            str(each.version),
            stamp(each.written_at, "%Y-%m-%d %H:%M") or UNKNOWN,
            Text(each.factor or UNKNOWN, "bold"),
            UNKNOWN if each.variant is None else str(each.variant),
            Text("in force", "green") if each.version in standing else Text("", "dim"),
        ]
        for each in history
    ]
    columns = (">", "when (UTC)", "factor", "variant", "")
    taken = sum(max(len(str(cell)) for cell in column) + 2 for column in zip(columns, *rows, strict=True))
    for row, each in zip(rows, history, strict=True):
        row.append(shortened(each.reason, max(SHORTEST, screen.width - taken - 2), placeholder=" …"))
    if rows:
        show_table(screen, (*columns, "why"), rows, indent=2)
        screen.print()
    show_base(screen, config)
    return 0


def as_dict(config: Config) -> dict[str, Any]:
    names = ("version", "base_env", "factor", "variant", "reason", "written_at")
    return {name: getattr(config, name) for name in names}
