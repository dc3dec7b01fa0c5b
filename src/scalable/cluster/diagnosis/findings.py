"""A finding: something that keeps work from going on, in plain words, with what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Severity(Enum):
    """How much a person should mind. The value is the word in the journal."""

    NOTE = "note"  # works as asked; could be better
    WARNING = "warning"  # costs time or money, or will if it goes on
    PROBLEM = "problem"  # does not go on by itself


@dataclass(frozen=True, slots=True)
class Finding:
    """``code`` is stable for machines; with ``about`` it says which situation this is, whatever the figures are."""

    code: str
    text: str
    remedy: str = ""
    severity: Severity = Severity.WARNING
    about: str = ""
    """A tag, mostly."""
    essence: str = ""
    """What must change for it to be news."""

    def __str__(self) -> str:
        return f"{self.text}; {self.remedy}" if self.remedy else self.text

    @property
    def key(self) -> tuple[str, str]:
        return (self.code, self.about)

    def facts(self) -> dict[str, Any]:
        """As the journal keeps it."""
        named = {"code": self.code, "text": self.text, "remedy": self.remedy, "severity": self.severity.value}
        return {**named, "about": self.about} if self.about else named


@dataclass(frozen=True, slots=True)
class Limits:
    """From when on something is worth a word, in seconds."""

    queued: float = 30.0  # a batch system looks at its queue every half minute or so
    silent: float = 20.0  # a worker imports for 2 to 10 s, on a slow shared disk longer; it gives up after 60
    unasked: float = 5.0  # whoever submits before adding workers adds them in the next lines
    waiting: float = 15.0  # the engine looks every half second; what it could do is done by then
    full: float = 60.0  # tasks that wait their turn are the normal case; only long queues deserve a hint
    idle: float = 300.0  # people think for some minutes between two cells of a notebook
    cold_start: float = 30.0  # a start shorter than that nobody minds
    recent: float = 60.0  # how long a worker that did not come is news if nothing needs it any more


LIMITS = Limits()
COLD_STARTS = 2  # one is the price of the first task; from the second on it is a habit
