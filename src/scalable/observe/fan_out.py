"""The progress of tasks over axes: by task, by the values of each axis, and at which coordinates they failed.

The journal says once which axes a task has; where its jobs are is known of them all, by their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from scalable.axes import MOST_COMBINATIONS, Value, combinations, job_name, named, value_text
from scalable.axes import count as combined
from scalable.observe.fields import count, listed, mapping, text
from scalable.wording import plural, some_of

MOST_VALUES = 500  # of an axis, and failed coordinates, that are told one by one
MOST_SHORT = 6  # incomplete values of an axis that a line names
SHOWN = 3  # failed coordinates that a line names
DONE, FAILED, STOPPED, RUNNING, WAITING = "done", "failed", "stopped", "running", "waiting"
STATES = {"finished": DONE, "failed": FAILED, "refused": FAILED, "stopped": STOPPED, "running": RUNNING}
"""Of jobs; all others wait."""


@dataclass(frozen=True, slots=True)
class FanOut:
    """A task over axes, as the journal tells of it."""

    task: str
    axes: Mapping[str, list[Value]]
    number: int = 0
    """How often it was run before in the same session."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self | None:
        """Return what a record says; nothing if that makes no sense."""
        axes = {
            str(axis): [value for value in listed(values) if isinstance(value, str | int | float)]
            for axis, values in mapping(record.get("axes")).items()
        }
        if not axes or not 0 < combined(axes) <= MOST_COMBINATIONS:
            return None
        return cls(text(record.get("task")), axes, count(record.get("number")))

    def jobs(self) -> Iterator[tuple[dict[str, Value], str]]:
        again = f"#{self.number + 1}" if self.number else ""
        return ((place, f"{job_name(self.task, place)}{again}") for place in combinations(self.axes))

    def progress(self, jobs: Mapping[str, str], recalled: set[str]) -> dict[str, Any]:
        """Return how many jobs are where, in all and by the values of each axis. ``jobs`` are their states by name."""
        whole: Counter[str] = Counter()
        by_axis: dict[str, dict[str, Counter[str]]] = {
            axis: {value_text(value): Counter() for value in values} for axis, values in self.axes.items()
        }
        failed = []
        taken = 0
        for place, job in self.jobs():
            state = STATES.get(jobs.get(job, ""), WAITING)
            whole[state] += 1
            taken += job in recalled
            for axis, value in place.items():
                by_axis[axis][value_text(value)][state] += 1
            if state == FAILED:
                failed.append(named(place))
        return {
            "jobs": whole.total(),
            **{name: whole[name] for name in (DONE, FAILED, STOPPED, RUNNING, WAITING)},
            "recalled": taken,
            "axes": {
                axis: {
                    value: {"jobs": counts.total(), DONE: counts[DONE], FAILED: counts[FAILED]}
                    for value, counts in list(values.items())[:MOST_VALUES]
                }
                for axis, values in by_axis.items()
            },
            "failed_at": failed[:MOST_VALUES],
        }


def in_words(progress: Mapping[str, Any], *, over: bool) -> str:
    """Return how far a task is, in a line."""
    parts = [f"{progress[DONE]:,} of {progress['jobs']:,} done"]
    if progress["recalled"]:
        parts[0] += f" ({progress['recalled']:,} from the cache)"
    if progress[FAILED]:
        more = progress[FAILED] - len(progress["failed_at"])
        at = some_of([*progress["failed_at"], *[""] * more], SHOWN)
        parts.append(f"{progress[FAILED]:,} failed ({at})")
    if progress[STOPPED]:
        parts.append(f"{progress[STOPPED]:,} stopped")
    if progress[RUNNING] and not over:
        parts.append(f"{progress[RUNNING]:,} running")
    if left := progress[WAITING] + (progress[RUNNING] if over else 0):
        parts.append(f"{left:,} {'not started' if over else 'waiting'}")
    return ", ".join(parts)


def by_value(progress: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return each axis with the values at which something is missing, and how many are complete."""
    lines = []
    for axis, values in progress["axes"].items():
        short = {value: counts for value, counts in values.items() if counts[DONE] < counts["jobs"]}
        behind = [f"{value} {counts[DONE]:,} of {counts['jobs']:,}" for value, counts in short.items()]
        complete = len(values) - len(short)
        rest = [f"{plural(complete, 'value')} complete"] if complete else []
        lines.append((axis, "; ".join([*([some_of(behind, MOST_SHORT)] if behind else []), *rest])))
    return lines
