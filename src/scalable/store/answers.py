"""What a store answers when it is asked for something else than rows: configuration, dead letters, places held."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

TTL_S = 30.0  # how long a place is kept for a holder that is not heard of: three missed heartbeats of ten seconds


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


@dataclass(frozen=True, slots=True)
class Lease:
    """A place somebody has or waits for. All times are by the database's clock, Unix seconds."""

    id: int
    """Who asked first has the smallest."""
    name: str
    kind: str
    holder: str
    """Who that is, for people: host and process."""
    token: int | None
    """Of a place that is held; every taking has a higher one than all before it. None while it waits."""
    requested_at: float
    heartbeat: float
    expires: float

    @property
    def held(self) -> bool:
        return self.token is not None


Places = list[Lease]
Decide = Callable[[Places, Places], str]
"""Is shown who has a place and who waits for one and came earlier; answers why one must wait, or nothing if not."""


class Ticket(Protocol):
    """One wish for a place. It is gone when it expires unheard of, and then asked for anew at the end of the line."""

    @property
    def token(self) -> int | None:
        """What proves that the place is held; None while it is not."""
        ...

    def try_take(self, decide: Decide) -> Lease | str:
        """Take the place if ``decide`` has nothing against it, else its reason. Nobody else decides meanwhile."""
        ...

    def beat(self) -> bool:
        """Say that the holder, or who waits, lives. False if the place was lost: then stop.

        A StoreError says that the store could not be asked; the place stays until it expires.
        """
        ...

    def release(self) -> None:
        """Give the place back, or stop waiting; twice does no harm."""
        ...


class Leases(Protocol):
    """Places that are given to a few at a time, across processes and machines."""

    def ask(self, name: str, kind: str, holder: str = "", *, shared: bool = False) -> Ticket:
        """Stand in line. ``kind`` is for those who decide; ``holder`` is this process unless it is said otherwise.

        All who ask ``shared`` with the same name and holder have one place together: each keeps it by its heartbeat,
        and whoever of them releases it does so for all.
        """
        ...

    def list(self) -> Places:
        """Those who have a place, then those who wait, each in the order they asked."""
        ...
