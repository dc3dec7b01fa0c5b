"""A pin: the sizes and numbers of workers of an earlier plan, which hold instead of what would be planned now.

It is what a rollback leaves. Sizes are those that the manifest gave to its profiles and components then; numbers are
those of the work that was planned, a sweep or everything. A pin says nothing about prices, budgets, bounds and
policies: those are the manifest's as it is today.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import ValidationError

from scalable.errors import PlanningError
from scalable.manifest.machines import Profile, Resources
from scalable.manifest.models import Component, Manifest
from scalable.quantities import Memory
from scalable.wording import shown

Sizes = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Pin:
    run: str
    """Whose plan it was."""
    sweep: str
    """Whose number of workers is pinned; empty for all that is planned together."""
    workers: Mapping[str, int]
    sizes: Sizes

    @classmethod
    def from_plan(cls, run: str, plan: Mapping[str, Any]) -> Self:
        """Read the ``plan`` record of a run's journal; raise ``PlanningError`` if that does not say enough."""
        workers, sizes, sweep = plan.get("workers_by_tag"), plan.get("sizes"), plan.get("sweep")
        if not (isinstance(workers, dict) and workers and all(isinstance(n, int) and n >= 0 for n in workers.values())):
            raise PlanningError(f"{run} has no plan that could be applied again")
        if not isinstance(sizes, dict) or not isinstance(sweep, str):
            raise PlanningError(f"{run} did not write down how big its workers were: an older version ran it")
        pin = cls(run, sweep, workers, sizes)
        for tag, size in sizes.items():  # what cannot be applied is told now, not when a run needs it
            checked(run, tag, size)
        return pin

    def to_dict(self) -> dict[str, Any]:
        return {"workers_by_tag": dict(self.workers), "sizes": dict(self.sizes), "sweep": self.sweep}

    @property
    def note(self) -> str:
        return f"pinned by rollback to {self.run}; scalable ops rollback --undo  lifts it"

    def same_as(self, other: Pin) -> bool:
        """Return whether workers are as many and as big."""
        return self.workers == other.workers and all(
            self.sizes.get(tag) == other.sizes.get(tag) for tag in self.workers
        )

    def shown(self) -> str:
        return ", ".join(f"{count} × {tag}{in_words(self.sizes.get(tag))}" for tag, count in self.workers.items())

    def covers(self, sweep: str, profile: str) -> bool:
        """Tell whether the number of workers of a sweep is pinned."""
        return self.sweep in ("", sweep) and profile in self.workers

    def applied(self, manifest: Manifest) -> Manifest:
        """Return the manifest with these sizes; kinds of workers that it no longer has are passed over."""
        profiles, components = dict(manifest.profiles), dict(manifest.components)
        for tag, size in self.sizes.items():
            parts = checked(self.run, tag, size)
            if tag in components and "cpus" in size:
                components[tag] = components[tag].model_copy(update=parts)
            elif tag in profiles and "limit" in size:
                profiles[tag] = profiles[tag].model_copy(update=parts)
        return manifest.model_copy(update={"profiles": profiles, "components": components})

    def counts(self, tags: list[str], most: int) -> dict[str, int]:
        """Return workers of components: as pinned, one each of new ones; the largest are cut where fewer may be."""
        counts = {tag: max(1, self.workers.get(tag, 1)) for tag in tags}
        while sum(counts.values()) > most:
            counts[max(counts, key=lambda tag: counts[tag])] -= 1
        return counts


def sizes_of(manifest: Manifest) -> dict[str, dict[str, Any]]:
    """Return how big the workers of a manifest are, as a plan's record keeps it."""
    profiles = {tag: of_profile(profile) for tag, profile in manifest.profiles.items()} if manifest.sweeps else {}
    return {**profiles, **{tag: of_component(part) for tag, part in manifest.components.items()}}


def of_profile(profile: Profile) -> dict[str, Any]:
    return {
        name: {"cpu": part.cpu.cores, "memory": part.memory.exact, "gpus": part.gpus}
        for name, part in (("request", profile.request), ("limit", profile.limit))
    }


def of_component(part: Component) -> dict[str, Any]:
    return {"cpus": part.cpus, "memory": part.memory.exact if part.memory else None, "gpus": part.gpus}


def checked(run: str, tag: str, size: object) -> dict[str, Any]:
    """Return a size that was written down, as the fields of a profile or component."""
    try:
        if isinstance(size, Mapping) and "limit" in size:
            parts = {name: Resources.model_validate(size[name]) for name in ("request", "limit")}
            Profile(**parts)  # raises if they do not fit together
            return parts
        if isinstance(size, Mapping) and "cpus" in size:
            memory = None if size.get("memory") is None else Memory.parse(size["memory"])
            part = Component(cpus=size["cpus"], memory=memory, gpus=size.get("gpus", 0))
            return {name: getattr(part, name) for name in ("cpus", "memory", "gpus")}
    except (ValidationError, ValueError, KeyError):
        pass
    raise PlanningError(f"{run}: {shown(size)} is no size of {tag}; roll back to another run")


def in_words(size: Mapping[str, Any] | None) -> str:
    limit = (size or {}).get("limit", size) or {}
    cpus = limit.get("cpu", limit.get("cpus"))
    return f" of {cpus:g} CPU / {limit.get('memory') or 'any memory'}" if cpus is not None else ""
