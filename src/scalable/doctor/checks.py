"""A check and what it found; what the examined case is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from scalable.manifest.models import Manifest
from scalable.providers.base import DeploymentSpec


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
    """What is examined: a manifest with its target, and the workers the plan asks for."""

    manifest: Manifest
    spec: DeploymentSpec
    workers: Mapping[str, int] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where the manifest and the user's code lie."""
        return Path(self.spec.folder)
