"""What a store answers when it is asked for something else than rows: configuration, dead letters, places held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Config:
    """The live configuration: what every further sweep is run on top of. Version 0 is that nothing was ever set."""

    version: int = 0
    base_env: Mapping[str, Any] = field(default_factory=dict)
    factor: str | None = None
    """What was locked last, and which variant of it."""
    variant: str | float | bool | None = None
    reason: str = ""
    written_at: float | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Something that was to be stored and that the database refuses for good, kept until a person decides."""

    id: str
    written_at: float
    reason: str
    tries: int
    kind: str
    """``row``, ``sweep``, ``incident``, or ``line`` for one of an outbox that cannot be read."""
    content: str
    """The line it is in an outbox."""


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """What became of dead letters that were tried again."""

    replayed: int = 0
    """They are in the database now, and dead letters no longer."""
    left: tuple[DeadLetter, ...] = ()
    """They were refused again; each has its newest reason."""
    reason: str = ""
    """Why the rest could not be tried at all; empty if all were."""
