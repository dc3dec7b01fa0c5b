"""The history of one job, from the view of its run: where it ran, what ended it, why it was tried again.

Also knows where every other job is, to name those there are. What another process could say better, a live session, is
not asked here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scalable.observe.fields import count, memory, number, tag_of, text
from scalable.observe.liveness import RunState
from scalable.observe.view import FAILED, FINISHED, RUNNING, RunView
from scalable.quantities import Duration, Memory
from scalable.wording import plural

FINAL = frozenset({"finished", "failed", "refused", "stopped"})
UNFINISHED = "not finished"  # of a session that is over
DIRECTLY = "was handed to Dask directly; the session kept no more of it"
REPEATING = frozenset({"alert", "incident"})  # kinds that say again what was just said, with their own name before
LATELY = 4  # among how many events that is looked for


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job, in words."""

    t: float
    kind: str
    text: str
    incident: int = 0
    """The number of the incident it tells of."""


@dataclass(frozen=True, slots=True)
class JobHistory:
    """The history of the job that a view was told to follow."""

    job: str
    state: str
    """Running, waiting, or how it ended; empty if the journal does not say."""
    worker: str
    """The worker it was on last."""
    direct: bool
    """Whether it is a task that was handed to Dask."""
    events: list[Event]
    rows_failed: bool = False

    @classmethod
    def of(cls, view: RunView) -> JobHistory:
        workers = [text(record.get("worker")) for record in view.events if record["kind"] == "attempt-started"]
        direct = any(record["kind"] == "task" and record.get("key") == view.job for record in view.events)
        state = view.jobs.get(view.job, "")
        return cls(view.job, state, workers[-1] if workers else "", direct, events_of(view), view.job in view.rowless)

    @property
    def known(self) -> bool:
        return bool(self.state) or any(event.kind != "operator" for event in self.events)

    @property
    def incident(self) -> int:
        """The latest one, to be looked at."""
        return next((event.incident for event in reversed(self.events) if event.incident), 0)

    def close(self, session: RunState) -> str:
        """Return how it stands, in a sentence, once the session is over or if it cannot be asked."""
        if self.direct or not self.state:
            return DIRECTLY if self.known else "never heard of"
        if self.state in FINAL:
            ending = "rows" if self.state == FAILED and self.rows_failed else "run-ended"
            return next((event.text for event in reversed(self.events) if event.kind == ending), self.state)
        if not session.over:
            return f"{self.state} on {self.worker}" if self.state == RUNNING and self.worker else self.state
        ran = f"while it ran on {self.worker}" if self.state == RUNNING else "before it was started again"
        return f"the session ended {ran}: {session.value}"

    def state_in(self, session: RunState) -> str:
        """Return what to call it: nothing runs or waits in a session that is over."""
        return UNFINISHED if session.over and self.state not in FINAL and self.state else self.state


def unfinished(view: RunView) -> list[str]:
    return [job for job, state in view.jobs.items() if state not in FINAL]


def events_of(view: RunView) -> list[Event]:
    """Return everything that is known of the job; what was just said is not said again."""
    events: list[Event] = []
    for record in view.events:
        kind = record["kind"]
        if (tell := TELLERS.get(kind)) is None:
            continue
        line = tell(record).removeprefix(f"{view.job}: ")
        number_ = count(record.get("id")) if kind == "incident" else 0
        news = line.removeprefix(f"incident {number_}: ")
        if kind not in REPEATING or not any(event.text.endswith(news) for event in events[-LATELY:]):
            events.append(Event(record["t"], kind, line, number_))
    return events


def started(record: Mapping[str, Any]) -> str:
    worker, tag = text(record.get("worker")), tag_of(record)
    return f"attempt {record.get('attempt', '?')} started on {worker} ({tag})"


def ended(record: Mapping[str, Any]) -> str:
    outcome, message = text(record.get("outcome")) or "unknown", text(record.get("message"))
    seconds, peak = number(record.get("seconds")), memory(record.get("peak"))
    after = f" after {Duration(max(0.0, seconds))}" if seconds is not None else ""
    used = f", peak {Memory(peak)}" if peak else ""
    error = f", {message}" if message and message != outcome else ""
    word = "finished" if outcome == FINISHED else f"was lost{after}: {outcome}"
    return f"attempt {record.get('attempt', '?')} {word}{after if outcome == FINISHED else ''}{used}{error}"


def retried(record: Mapping[str, Any]) -> str:
    return f"was tried again after: {text(record.get('cause')) or 'unknown'}"


def incident(record: Mapping[str, Any]) -> str:
    kind, guilty = text(record.get("incident")) or "unknown", text(record.get("text"))
    which = f"incident {record['id']}" if isinstance(record.get("id"), int) else "incident"
    if outcome := text(record.get("outcome")):  # told again when the run had ended
        return f"{which}: {outcome}"
    return f"{which}: {kind}{f', {guilty}' if guilty and guilty != kind else ''}"


def concluded(record: Mapping[str, Any]) -> str:
    state, reason = text(record.get("state")) or "ended", text(record.get("reason"))
    return f"{state}: {reason}" if reason else state


def acted(record: Mapping[str, Any]) -> str:
    what = " ".join(filter(None, (text(record.get("ask")), text(record.get("target")))))
    return f"{what}, by {text(record.get('by')) or 'an operator'}"


def tasked(record: Mapping[str, Any]) -> str:
    error, worker = text(record.get("error")), text(record.get("worker"))
    return f"{text(record.get('status')) or 'ended'} on {worker}{f': {error}' if error else ''}"


def stored(record: Mapping[str, Any]) -> str:
    rows, failed, error = count(record.get("count")), count(record.get("failed")), text(record.get("error"))
    if not failed:
        return f"{plural(rows, 'row')} stored{' by another run' if record.get('elsewhere') else ''}"
    return f"{failed} of {plural(rows, 'row')} failed{f': {error}' if error else ''}"


TELLERS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "attempt-started": started,
    "attempt-ended": ended,
    "retry": retried,
    "incident": incident,
    "alert": lambda record: text(record.get("text")) or text(record.get("alert")),
    "run-ended": concluded,
    "rows": stored,
    "operator": acted,
    "task": tasked,
}
