"""The number of workers there should be: thresholds with hysteresis, hard bounds, a cooldown between changes.

``wanted`` is the rule; the engine applies it to its own queues and ``AdaptiveScaler`` offers it to anyone who has
counts of pending tasks and active workers.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from scalable.errors import QuantityError
from scalable.wording import plural

T = TypeVar("T")

HISTORY = 1000  # decisions that are remembered
TASKS = "mappings with a tag, [{'tag': 'demeter'}]"
COMPLETIONS = "seconds from 0, as numbers or as {'seconds': 12.5}"


def wanted(
    *, active: int, busy: int | None, work: int, minimum: int, maximum: int | None, up: float, down: float
) -> tuple[int, str]:
    """Return the number of workers there should be, and why.

    ``work`` counts tasks that run or wait, in workers. Bounds always hold; above the minimum there are never more
    workers than work; busy workers are never given up.
    """
    ceiling = max(maximum, minimum) if maximum is not None else max(work, minimum, active)
    target = min(max(work, minimum), ceiling)
    kept = max(target, busy or 0)
    if active < minimum:
        return target, f"{active} of at least {plural(minimum, 'worker')}"
    if active > ceiling:
        return max(ceiling, busy or 0), f"{active} workers, at most {ceiling} are allowed"
    used = busy if busy is not None else min(work, active)
    utilisation = used / active if active else float(work > 0)
    shown = f"{utilisation:.0%} busy, work for {work}"
    if target > active and utilisation >= up:
        return target, shown
    if kept < active and utilisation < down:
        return kept, shown
    if target == active == ceiling and work > active:
        return active, f"{shown}, at the maximum"
    return active, shown


@dataclass(frozen=True, slots=True)
class ScaleDecision:
    """Workers to add and remove by tag, and the reasons."""

    workers_to_add: dict[str, int] = field(default_factory=dict)
    workers_to_remove: dict[str, int] = field(default_factory=dict)
    reasoning: str = ""
    confidence: float = 1.0
    """From 0 to 1; grows with the number of recent completions the prediction rests on."""
    predicted_completion_time: float | None = None
    """Seconds until the work known now is done, if durations were given."""
    timestamp: float = 0.0

    @property
    def has_changes(self) -> bool:
        return bool(self.workers_to_add or self.workers_to_remove)

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*self.__dataclass_fields__, "has_changes")}


class AdaptiveScaler:
    """A rule that decides from counts how many workers of each tag to add or remove.

    >>> scaler = AdaptiveScaler(max_workers={"demeter": 20}, clock=lambda: 0.0)
    >>> scaler.evaluate(pending_tasks=[{"tag": "demeter"}] * 5, active_workers={"demeter": 2}).workers_to_add
    {'demeter': 3}
    """

    def __init__(
        self,
        *,
        min_workers: Mapping[str, int] | None = None,
        max_workers: Mapping[str, int] | None = None,
        scale_up_threshold: float = 0.8,
        scale_down_threshold: float = 0.2,
        cooldown_seconds: float = 120,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.min_workers = counts_by_tag("min_workers", min_workers or {})
        self.max_workers = counts_by_tag("max_workers", max_workers or {})
        for tag in {*self.min_workers, *self.max_workers}:
            low, high = self.min_workers.get(tag, 0), self.max_workers.get(tag)
            if high is not None and high < low:
                raise QuantityError(f"{tag}: min_workers {low}, max_workers {high}", "write 0 <= min <= max")
        if not 0 <= scale_down_threshold < scale_up_threshold <= 1:
            raise QuantityError(
                f"thresholds {scale_down_threshold} and {scale_up_threshold} leave no room between them",
                "write 0 <= scale_down_threshold < scale_up_threshold <= 1",
            )
        if not cooldown_seconds >= 0:
            raise QuantityError(f"cooldown_seconds is {cooldown_seconds}", "write 0 or more")
        self.up, self.down, self.cooldown = scale_up_threshold, scale_down_threshold, cooldown_seconds
        self.clock = clock
        self._changed: dict[str, float] = {}
        self._history: deque[ScaleDecision] = deque(maxlen=HISTORY)

    @property
    def decision_history(self) -> list[ScaleDecision]:
        return list(self._history)

    def reset_cooldown(self) -> None:
        self._changed.clear()

    def evaluate(
        self,
        *,
        pending_tasks: Iterable[Mapping[str, Any]] = (),
        active_workers: Mapping[str, int],
        busy_workers: Mapping[str, int] | None = None,
        recent_completions: Iterable[float | Mapping[str, Any]] | None = None,
    ) -> ScaleDecision:
        """Decide for every tag that is named anywhere.

        ``pending_tasks`` have a ``tag``; without ``busy_workers`` they are taken to include the running ones.
        ``recent_completions`` are seconds, or mappings with ``seconds``, of tasks that ended lately.
        """
        now = self.clock()
        pending = tags_of(pending_tasks)
        active_workers = counts_by_tag("active_workers", active_workers)
        busy_workers = None if busy_workers is None else counts_by_tag("busy_workers", busy_workers)
        completions = () if recent_completions is None else each("recent_completions", recent_completions, COMPLETIONS)
        durations = [seconds_of(completion) for completion in completions]
        tags = sorted({*pending, *active_workers, *self.min_workers, *self.max_workers})
        add: dict[str, int] = {}
        remove: dict[str, int] = {}
        reasons: list[str] = []
        for tag in tags:
            active = active_workers.get(tag, 0)
            busy = min(busy_workers.get(tag, 0), active) if busy_workers is not None else None
            target, reason = wanted(
                active=active,
                busy=busy,
                work=pending[tag] + (busy or 0),
                minimum=self.min_workers.get(tag, 0),
                maximum=self.max_workers.get(tag),
                up=self.up,
                down=self.down,
            )
            outside = active < self.min_workers.get(tag, 0) or active > self.max_workers.get(tag, active)
            changed = min(self._changed.get(tag, float("-inf")), now)  # a clock that was set back prolongs nothing
            wait = changed + self.cooldown - now
            if target == active:
                reasons.append(f"{tag}: stays at {active} ({reason})")
            elif wait > 0 and not outside:
                self._changed[tag] = changed
                reasons.append(f"{tag}: in cooldown for {wait:.0f} s, stays at {active} instead of {target} ({reason})")
            else:
                (add if target > active else remove)[tag] = abs(target - active)
                self._changed[tag] = now
                reasons.append(f"{tag}: {active} → {target} ({reason})")
        seconds, confidence = self.prediction(pending, active_workers, add, remove, busy_workers, durations)
        decision = ScaleDecision(add, remove, "; ".join(reasons) or "no tags", confidence, seconds, now)
        self._history.append(decision)
        return decision

    @staticmethod
    def prediction(
        pending: Mapping[str, int],
        active: Mapping[str, int],
        add: Mapping[str, int],
        remove: Mapping[str, int],
        busy: Mapping[str, int] | None,
        durations: Sequence[float],
    ) -> tuple[float | None, float]:
        """Return the seconds until the slowest tag is done at the mean of recent durations, and how sure that is."""
        if not durations:
            return None, 0.5
        mean = sum(durations) / len(durations)
        times = [0.0]
        for tag in {*pending, *active}:
            workers = active.get(tag, 0) + add.get(tag, 0) - remove.get(tag, 0)
            tasks = pending.get(tag, 0) + (busy or {}).get(tag, 0)
            if tasks:
                times.append(mean * -(-tasks // workers) if workers else float("inf"))
        longest = max(times)
        confidence = 0.5 + 0.5 * len(durations) / (len(durations) + 10)
        return (longest if longest < float("inf") else None), round(confidence, 3)


def counts_by_tag(name: str, counts: Mapping[str, int]) -> dict[str, int]:
    """Return the same counts; raise what to write if they are none."""
    if not isinstance(counts, Mapping) or not all(
        isinstance(tag, str) and type(count) is int and count >= 0 for tag, count in counts.items()
    ):
        raise QuantityError(f"{name} is {counts!r}", f"write whole numbers from 0 by tag, {name}={{'demeter': 4}}")
    return dict(counts)


def tags_of(tasks: Iterable[Mapping[str, Any]]) -> Counter[str]:
    tags: Counter[str] = Counter()
    for task in each("pending_tasks", tasks, TASKS):
        if not isinstance(task, Mapping) or not isinstance(task.get("tag"), str | None):
            raise QuantityError(f"a pending task is {task!r}", f"write {TASKS}")
        tags[task.get("tag") or "default"] += 1
    return tags


def each(name: str, values: Iterable[T], remedy: str) -> Iterable[T]:
    """Return the same values; raise what to write if they are none that can be gone through."""
    if not isinstance(values, Iterable):
        raise QuantityError(f"{name} is {values!r}", f"write a list: {remedy}")
    return values


def seconds_of(completion: object) -> float:
    """Return how long a task took; raise what to write if it does not say."""
    seconds = completion.get("seconds") if isinstance(completion, Mapping) else completion
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
        raise QuantityError(f"a recent completion is {completion!r}", f"write {COMPLETIONS}")
    return float(seconds)
