"""Going back to an earlier plan: which one, where it is kept, and when it holds.

Every run's journal has the plan that was applied. A rollback writes one of them into ``.scalable/pinned.json``;
whoever plans or runs that manifest on that target from now on finds it there. Without the file nothing is pinned.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from scalable.errors import PlanningError, UsageError
from scalable.observe.fields import mapping, text
from scalable.observe.files import write_beside
from scalable.observe.folders import RunFolder, runs_dir, state_file
from scalable.observe.history import LOCK, WAIT_S, locked
from scalable.observe.journal import read
from scalable.observe.view import RunView
from scalable.planning.pins import Pin

FILE = "pinned.json"
LOOKED_AT = 500  # how many of the latest runs are searched for another plan
FIRST_RECORDS = 20  # of a journal, among which its plan stands


@dataclass(frozen=True, slots=True)
class PinScope:
    """The scope of a pin: a manifest and the target it runs on."""

    manifest: Path
    target: str

    @classmethod
    def of(cls, manifest: Path, target: str | None) -> PinScope:
        return cls(manifest.resolve(), target or "local")

    def has(self, run: RunFolder) -> bool:
        return text(run.facts().get("target")) == self.target and run.is_of(self.manifest)

    def __str__(self) -> str:
        return f"{self.manifest.name} on {self.target}"


def pin_of(place: PinScope) -> Pin | None:
    """Return what is pinned there."""
    held = [pin for pin in pins(runs_dir(None, place.manifest)) if where(pin) == place]
    return Pin.from_plan(text(held[-1].get("run")), held[-1]) if held else None


def plan_of(run: RunFolder) -> dict[str, Any] | None:
    """Return the plan a run began with; None if it did not get so far."""
    view = RunView()
    for record in islice(read(run.journal), FIRST_RECORDS):
        view.take(record)
        if view.plan:
            return dict(view.plan)
    return None


def plans(place: PinScope) -> Iterator[tuple[RunFolder, dict[str, Any]]]:
    """Yield the plans made for a place, the latest first; not those that only applied another again."""
    for run in reversed(RunFolder.list(runs_dir(None, place.manifest))[-LOOKED_AT:]):
        if place.has(run) and (plan := plan_of(run)) is not None and not plan.get("pinned"):
            yield run, plan


def in_force(place: PinScope) -> Pin:
    """Return the plan that a rollback leaves behind: what is pinned, else that of the latest run."""
    if (held := pin_of(place)) is not None:
        return held
    for run, plan in plans(place):
        return Pin.from_plan(run.run_id, plan)
    raise UsageError(f"nothing to roll back: no run of {place} is recorded in {runs_dir(None, place.manifest)}")


def before(place: PinScope) -> Pin:
    """Return the plan before the one in force: of the same work, with other sizes or numbers.

    After a rollback the one in force is the pinned one, so that a second rollback goes further back, not forth again.
    """
    now = in_force(place)
    older = False
    for run, plan in plans(place):
        if older and plan.get("sweep") == now.sweep and "sizes" in plan:
            earlier = Pin.from_plan(run.run_id, plan)
            if not earlier.same_as(now):
                return earlier
        older = older or run.run_id == now.run
    work = f"sweep {now.sweep}" if now.sweep else "everything"
    raise UsageError(
        f"nothing to roll back to: no run of {place} before {now.run} planned {work} otherwise than {now.shown()}; "
        "--to RUN  names one"
    )


def named(place: PinScope, run_id: str) -> Pin:
    """Return the plan of a run that a person names."""
    run = RunFolder.open(run_id, runs_dir(None, place.manifest))
    if not place.has(run):
        facts = run.facts()
        whose = (
            f"{text(facts.get('manifest')) or 'another manifest'} on {text(facts.get('target')) or 'another target'}"
        )
        raise UsageError(
            f"{run.run_id} is a run of {whose}, not of {place}; --manifest and --target say whose is meant"
        )
    if (plan := plan_of(run)) is None:
        raise UsageError(f"{run.run_id} has no plan; name another run")
    return Pin.from_plan(run.run_id, plan)


def hold(place: PinScope, pin: Pin | None) -> None:
    """Pin a plan, or with none let planning go on by itself."""
    folder = runs_dir(None, place.manifest)
    path = state_file(FILE, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(state_file(LOCK, folder), WAIT_S):
            kept = [other for other in pins(folder) if where(other) != place]
            if pin is not None:
                kept.append({"manifest": str(place.manifest), "target": place.target, "run": pin.run, **pin.to_dict()})
            write_beside(path, json.dumps(kept, indent=1) + "\n")
    except OSError as error:
        raise PlanningError(f"{path} cannot be written: {error.strerror}; nothing is rolled back") from None


def pins(folder: Path) -> list[dict[str, Any]]:
    path = state_file(FILE, folder)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError, RecursionError) as error:
        raise PlanningError(f"{path} cannot be read: {error}; remove it to plan without what was rolled back") from None
    if not isinstance(content, list) or not all(isinstance(entry, dict) for entry in content):
        raise PlanningError(f"{path} is no list of plans; remove it to plan without what was rolled back")
    return content


def where(pin: dict[str, Any]) -> PinScope:
    facts = mapping(pin)
    return PinScope(Path(text(facts.get("manifest"))), text(facts.get("target")))
