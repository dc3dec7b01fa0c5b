"""A check and what it found; what the examined case is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from scalable.cluster.base import DeploymentSpec, WorkerTemplate
from scalable.manifest.models import Manifest


class Status(StrEnum):
    OK = "ok"
    WARN = "warn"  # it will run; read the text
    FAIL = "fail"  # it will not run, or not to its end


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    status: Status
    text: str
    remedy: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "status": self.status.value}


def ok(name: str, text: str) -> Check:
    return Check(name, Status.OK, text)


def warn(name: str, text: str, remedy: str = "") -> Check:
    return Check(name, Status.WARN, text, remedy)


def fail(name: str, text: str, remedy: str = "") -> Check:
    return Check(name, Status.FAIL, text, remedy)


@dataclass(frozen=True, slots=True)
class Case:
    """What is examined: a manifest with its target, and the workers that plans ask for."""

    manifest: Manifest
    spec: DeploymentSpec
    demands: Sequence[Mapping[str, int]] = ()
    """By kind, for each thing that a run may be of: the components together, or one of the sweeps."""

    @property
    def parts(self) -> dict[str, WorkerTemplate]:
        """The kinds of workers that somebody asks for; a profile that no sweep takes is none of them."""
        asked = {*self.manifest.components, *(tag for each in self.demands for tag in each)}
        return {tag: part for tag, part in self.spec.components.items() if tag in asked}

    @property
    def most_workers(self) -> int:
        return max((sum(each.values()) for each in self.demands), default=0)

    def key(self, tag: str) -> str:
        """Where the manifest says how large such a worker is."""
        return f"components.{tag}" if tag in self.manifest.components else f"profiles.{tag}.limit"

    @property
    def folder(self) -> Path:
        """Where the manifest and the user's code lie."""
        return Path(self.spec.folder)
