"""A check of this machine as a finding, and the case that is examined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scalable.cluster.base import DeploymentSpec, WorkerTemplate
from scalable.findings import Finding
from scalable.machine_hours import HeldResources
from scalable.manifest.models import Manifest


def ok(code: str, message: str, path: str = "") -> Finding:
    return Finding.ok(code, path, message)


def warn(code: str, message: str, remedy: str = "", path: str = "") -> Finding:
    """Return a finding that does not keep a run from its end."""
    return Finding.warning(code, path, message, remedy)


def fail(code: str, message: str, remedy: str = "", path: str = "") -> Finding:
    """Return a finding that keeps a run from starting, or from its end."""
    return Finding.error(code, path, message, remedy)


@dataclass(frozen=True, slots=True)
class Case:
    """The case that is examined: a manifest with its target, and the workers that plans ask for."""

    manifest: Manifest
    spec: DeploymentSpec
    demands: Sequence[Mapping[str, int]] = ()
    """By kind, for each thing that a run may be of: the components together, or one of the sweeps."""
    hours: HeldResources = field(default_factory=HeldResources)
    """Core-, node- and GPU-hours that all of these need together, as far as their plans know."""

    @property
    def parts(self) -> dict[str, WorkerTemplate]:
        """The kinds of workers that somebody asks for; a profile that no sweep takes is none of them."""
        asked = {*self.manifest.components, *(tag for each in self.demands for tag in each)}
        return {tag: part for tag, part in self.spec.components.items() if tag in asked}

    @property
    def most_workers(self) -> int:
        return max((sum(each.values()) for each in self.demands), default=0)

    def key(self, tag: str) -> str:
        """Return where the manifest says how large such a worker is."""
        return f"components.{tag}" if tag in self.manifest.components else f"profiles.{tag}.limit"

    @property
    def folder(self) -> Path:
        """The folder of the manifest and the user's code."""
        return Path(self.spec.folder)
