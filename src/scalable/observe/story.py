"""What happened to one run, told from the journal: where it ran, what ended it, why it was tried again; a pure fold.

Also knows where every other run of the journal is, to name those there are. What another process could say better, a
live session, is not asked here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scalable.observe.fields import count, memory, number, tag_of, text
from scalable.observe.liveness import State
from scalable.quantities import Duration, Memory

RUNNING, WAITING = "running", "waiting"  # where a run is that has not ended, as far as the journal tells
FINAL = frozenset({"finished", "failed", "refused", "stopped"})
FINISHED = "finished"
MOST_EVENTS = 1000  # of one run; a run that was tried more often has the same to tell again
ABOUT_ALL = frozenset({"pause", "resume"})  # what operators do that concerns every run
UNFINISHED = "not finished"  # of a session that is over
DIRECTLY = "was handed to Dask directly; the session kept no more of it"


@dataclass(frozen=True, slots=True)
class Happened:
    t: float
    kind: str
    text: str
    incident: int = 0
    """The number of the incident it tells of."""


@dataclass(slots=True)
class Story:
    run: str
    happened: list[Happened] = field(default_factory=list)
    states: dict[str, str] = field(default_factory=dict)
    """Where each run of the journal is: running, waiting, or how it ended."""
    where: str = ""
    """The worker it is on."""
    direct: bool = False
    """Whether it is a task that was handed to Dask."""

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]], run: str = "") -> Story:
        story = cls(run)
        for record in records:
            story.add(record)
        return story

    def add(self, record: Mapping[str, Any]) -> None:
        """Take in one record that has a time ``t`` and a ``kind``; others' runs only change ``states``."""
        kind = record["kind"]
        name = text(record.get("run"))
        if name and (state := STATES.get(kind)):
            self.states[name] = state(record)
        mine = name == self.run or (kind == "operator" and operated(record, self.run))
        mine = mine or (kind == "incident" and GUARDED.sub("", name) == self.run)
        if self.run and kind == "task" and record.get("key") == self.run:
            mine = self.direct = True
            self.states[self.run] = text(record.get("status")) or "ended"
        if self.run and mine and (tell := TELLERS.get(kind)) and len(self.happened) < MOST_EVENTS:
            self.where = text(record.get("worker")) if kind == "attempt-started" else self.where
            said = tell(record).removeprefix(f"{self.run}: ")
            which = count(record.get("id")) if kind == "incident" else 0
            news = said.removeprefix(f"incident {which}: ")
            if kind not in REPEATING or not any(one.text.endswith(news) for one in self.happened[-LATELY:]):
                self.happened.append(Happened(record["t"], kind, said, which))

    @property
    def state(self) -> str:
        return self.states.get(self.run, "")

    @property
    def known(self) -> bool:
        return self.run in self.states or any(one.kind != "operator" for one in self.happened)

    @property
    def incident(self) -> int:
        """The latest one, to be looked at."""
        return next((one.incident for one in reversed(self.happened) if one.incident), 0)

    def unfinished(self) -> list[str]:
        return [run for run, state in self.states.items() if state not in FINAL]

    def close(self, session: State) -> str:
        """How it stands, in a sentence, once the session is over or if it cannot be asked."""
        if self.direct or not self.state:
            return DIRECTLY if self.known else "never heard of"
        if self.state in FINAL:
            return next((one.text for one in reversed(self.happened) if one.kind == "run-ended"), self.state)
        if not session.over:
            return f"{self.state} on {self.where}" if self.state == RUNNING and self.where else self.state
        ran = f"while it ran on {self.where}" if self.state == RUNNING else "before it was started again"
        return f"the session ended {ran}: {session.value}"

    def state_in(self, session: State) -> str:
        """What to call it: nothing runs or waits in a session that is over."""
        return UNFINISHED if session.over and self.state not in FINAL and self.state else self.state


def started(record: Mapping[str, Any]) -> str:
    worker, tag = text(record.get("worker")), tag_of(record)
    return f"attempt {record.get('attempt', '?')} started on {worker} ({tag})"


def ended(record: Mapping[str, Any]) -> str:
    outcome, message = text(record.get("outcome")) or "unknown", text(record.get("message"))
    seconds, peak = number(record.get("seconds")), memory(record.get("peak"))
    after = f" after {Duration(max(0.0, seconds))}" if seconds is not None else ""
    used = f", peak {Memory(peak)}" if peak else ""
    said = f", {message}" if message and message != outcome else ""
    word = "finished" if outcome == FINISHED else f"was lost{after}: {outcome}"
    return f"attempt {record.get('attempt', '?')} {word}{after if outcome == FINISHED else ''}{used}{said}"


REPEATING = frozenset({"alert", "incident"})  # kinds that say again what was just said, with their own name before
LATELY = 4  # among how many records that is looked for
GUARDED = re.compile(r"-[0-9a-f]{8}$")  # what a guarded function's name gets to be the name of its runner's work


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


def operated(record: Mapping[str, Any], run: str) -> bool:
    """Whether what an operator did concerns a run."""
    concerned = record.get("runs")
    named = isinstance(concerned, list) and run in concerned
    return named or record.get("target") == run or record.get("ask") in ABOUT_ALL


STATES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "attempt-started": lambda record: RUNNING,
    "attempt-ended": lambda record: WAITING,
    "retry": lambda record: WAITING,
    "run-ended": lambda record: text(record.get("state")) or "ended",
}
TELLERS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "attempt-started": started,
    "attempt-ended": ended,
    "retry": retried,
    "incident": incident,
    "alert": lambda record: text(record.get("text")) or text(record.get("alert")),
    "run-ended": concluded,
    "operator": acted,
    "task": tasked,
}
