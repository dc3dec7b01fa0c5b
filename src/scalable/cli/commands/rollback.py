"""``scalable ops rollback``: the plan before holds again, for later runs and for a session that is live."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from scalable.cli import context, operating
from scalable.cli.output import console, note, print_json
from scalable.errors import ScalableError, UsageError
from scalable.observe import RunFolder, runs_dir
from scalable.observe.liveness import running
from scalable.planning.pins import Pin
from scalable.session.operate.rollback import PinScope, before, hold, in_force, named, pin_of, plan_of
from scalable.wording import plural

if TYPE_CHECKING:
    from scalable.session.session import ScalableSession


def run(options: argparse.Namespace) -> int:
    if options.undo and options.to:
        raise UsageError("--undo lifts what is pinned, --to pins another run; write one of them")
    loaded, path = context.load(options), context.manifest_path(options.manifest)
    place = PinScope.of(path, loaded.target)
    if options.undo:
        return undo(place, options)
    pin = named(place, options.to) if options.to else before(place)
    was = in_force(place)
    content: dict[str, Any] = {"run": pin.run, "from": was.run, "dry_run": options.dry_run, **pin.to_dict(), "live": []}
    if not options.dry_run:
        hold(place, pin)
        if live := [folder for folder in running(runs_dir(manifest=path)) if place.has(folder)]:
            from scalable.session.session import ScalableSession  # takes a second, and only these need it

            content["live"] = [applied(folder, ScalableSession(loaded, path)) for folder in live]
    if options.format == "json":
        print_json(content)
    else:
        show(pin, was, place, content)
    return int(any(folder.get("failed") for folder in content["live"]))


def undo(place: PinScope, options: argparse.Namespace) -> int:
    held = pin_of(place)
    if held is None:
        raise UsageError(f"nothing is rolled back: no plan of {place} is pinned")
    if not options.dry_run:
        hold(place, None)
    if options.format == "json":
        print_json({"run": None, "from": held.run, "dry_run": options.dry_run})
    else:
        would = "would be" if options.dry_run else "is"
        after = "a session that is live keeps its workers"
        console().print(f"{place} {would} planned anew, no longer as {held.run} was; {after}", soft_wrap=True)
    return 0


def applied(folder: RunFolder, session: ScalableSession) -> dict[str, Any]:
    """Let a live session have the numbers that a session started now would have."""
    pin, plan = session.pin, plan_of(folder)
    assert pin is not None, "it was pinned a moment ago"
    if plan is None or plan.get("sweep") != pin.sweep:
        return {"run_id": folder.run_id, "workers": {}, "why": "it does other work; its workers stay as they are"}
    counts = (session.plan_sweep(pin.sweep) if pin.sweep else session.plan()).scale_plan.workers_by_tag
    try:
        answer = operating.asked(folder, "rollback", workers=counts, to=pin.run)
    except ScalableError as error:  # what later runs use is pinned all the same
        return {"run_id": folder.run_id, "workers": {}, "why": str(error), "failed": True}
    return {"run_id": folder.run_id, "workers": answer["workers"], "why": ""}


def show(pin: Pin, was: Pin, place: PinScope, content: dict[str, Any]) -> None:
    screen = console()
    done = "would roll back" if content["dry_run"] else "rolled back"
    screen.print(f"{done} {place} to {pin.run}: {pin.shown()}", soft_wrap=True)
    screen.print(f"  instead of {was.run}: {was.shown()}", soft_wrap=True)
    if content["dry_run"]:
        return
    screen.print("  plans and runs from now on use it; scalable ops rollback --undo  lifts it", soft_wrap=True)
    for applied_to in content["live"]:
        changes = [f"{plural(n['to'], f'{tag} worker')} (had {n['from']})" for tag, n in applied_to["workers"].items()]
        stay = "; those that are there keep their size: end it and run it again if that is what was wrong"
        what = f"{', '.join(changes)} from now on{stay}" if changes else applied_to["why"]
        screen.print(note("·", f"{applied_to['run_id']} is live: {what}", "dim"))
