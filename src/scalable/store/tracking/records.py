"""What is told of a sweep: one record, complete in itself, that can wait in a file."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from numbers import Real
from typing import Any


class Status(Enum):
    """How far a sweep is, in MLflow's words."""

    RUNNING = "RUNNING"
    FINISHED = "FINISHED"  # complete: every expected row is there
    FAILED = "FAILED"  # ended with rows missing
    KILLED = "KILLED"  # interrupted; it may be resumed


@dataclass(frozen=True, slots=True)
class SweepRecord:
    """One run of a sweep. Logging a record again replaces what was logged of the same ``id``, so nothing is doubled."""

    id: str
    """Names this run of the sweep among all, e.g. its run folder's name."""
    experiment: str
    """What it is listed under: the project."""
    name: str
    """The sweep's."""
    started: float
    """In seconds since 1970, as is ``ended``."""
    ended: float | None = None
    status: Status = Status.RUNNING
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    """For each variant, as ``averaged`` makes them, or others."""
    decision: Mapping[str, Any] = field(default_factory=dict)
    """The verdict and what it rests on; they become tags, which may change later."""
    rows: Sequence[Mapping[str, Any]] = ()

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "status": self.status.value}, default=str)

    @classmethod
    def from_json(cls, text: str) -> SweepRecord:
        facts = json.loads(text)
        return cls(**{**facts, "status": Status(facts["status"])})

    def table(self) -> dict[str, Any]:
        """The rows as MLflow reads tables: columns once, and what JSON has no number for as nothing."""
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        return {"columns": columns, "data": [[plain(row.get(name)) for name in columns] for row in self.rows]}


def averaged(rows: Iterable[Mapping[str, Any]], metrics: Iterable[str]) -> dict[str, float]:
    """The mean of each metric over the rows of each variant, as ``VARIANT/METRIC``, and their number."""
    wanted = list(metrics)
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[str(row.get("variant"))].append(row)
    means: dict[str, float] = {}
    for variant, group in groups.items():
        means[f"{variant}/rows"] = float(len(group))
        for name in wanted:
            if values := [float(row[name]) for row in group if is_number(row.get(name))]:
                means[f"{variant}/{name}"] = math.fsum(values) / len(values)
    return means


def is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def plain(value: Any) -> Any:
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, Real):
        return None if not math.isfinite(value) else int(value) if isinstance(value, int) else float(value)
    return str(value)
