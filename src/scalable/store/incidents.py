"""What went wrong in a run, as the store keeps it so that it can be seen from other machines.

The evidence stays in the run's folder; the store has what a person needs to decide whether to look there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from scalable.store.errors import RowError
from scalable.store.rows import as_dict, check_names, set_number, stored
from scalable.wording import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRow:
    """One incident. Written again with the same id, the later one is kept."""

    id: str
    """Names it among those of all runs, e.g. ``run-…/1``."""
    kind: str
    started: float
    """Unix seconds."""
    sweep: str | None = None
    run: str | None = None
    worker: str | None = None
    summary: Mapping[str, Any] = field(default_factory=dict)
    """What is known of it, as JSON."""

    def __post_init__(self) -> None:
        where = f"incident {shown(self.id)}"
        for name in ("id", "kind", "started"):
            if getattr(self, name) is None:
                raise RowError(f"{where}: {name} is missing")
        check_names(self, where, "id", "kind", "sweep", "run", "worker")
        set_number(self, "started", where)
        if not isinstance(self.summary, Mapping):
            raise RowError(f"{where}: summary is a {type(self.summary).__name__}; write a mapping of names to values")
        object.__setattr__(self, "summary", stored(self.summary, where, "summary"))

    def to_dict(self) -> dict[str, Any]:
        return as_dict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(**values)
