"""What earlier runs measured. It replaces the assumptions of the manifest wherever it has something to say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scalable.errors import PlanningError
from scalable.quantities import Memory, Money

LONGEST_S = 10 * 365 * 86400  # no run took longer than ten years


@dataclass(frozen=True, slots=True)
class Session:
    """One past session, for the acceptance criteria."""

    oom_kills: int = 0
    failures: int = 0
    scale_up_s: float | None = None
    scale_down_s: float | None = None


@dataclass(frozen=True, slots=True)
class History:
    seconds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Durations of finished searches by factor."""
    peaks: Mapping[str, Memory] = field(default_factory=dict)
    """Highest memory peak seen by factor."""
    sessions: tuple[Session, ...] = ()
    spent_this_month: Money | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> History:
        try:
            spent = data.get("spent_this_month")
            return cls(
                seconds={name: tuple(map(seconds, values)) for name, values in data.get("seconds", {}).items()},
                peaks={name: Memory.parse(peak) for name, peak in data.get("peaks", {}).items()},
                sessions=tuple(session(**one) for one in data.get("sessions", ())),
                spent_this_month=Money.parse(spent) if spent else None,
            )
        except (TypeError, ValueError, AttributeError) as error:
            raise PlanningError(f"the history cannot be read: {error}; move it away to plan without it") from None


def seconds(value: object) -> float:
    """A duration that something can have taken."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < LONGEST_S:
        raise ValueError(f"{value!r} is not a number of seconds above 0")
    return float(value)


def session(
    oom_kills: int = 0, failures: int = 0, scale_up_s: float | None = None, scale_down_s: float | None = None
) -> Session:
    for count in (oom_kills, failures):
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ValueError(f"{count!r} is not a count")
    up, down = (None if value is None else seconds(value) for value in (scale_up_s, scale_down_s))
    return Session(oom_kills, failures, up, down)
