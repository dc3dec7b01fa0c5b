"""The interface of a result store, and its answers. ``scalable.testing.store`` checks a store against it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from scalable.axes import Value
from scalable.store.decisions import DecisionRow
from scalable.store.leases import TTL_S, Leases, WorkLeases
from scalable.store.rows import AttemptRow, IncidentRow, Row, RowStatus, SweepRun


class Fate(Enum):
    """The place where rows that were handed over are now."""

    COMMITTED = "committed"  # in the database
    KEPT = "kept"  # safe on disk in an outbox; the database did not take them and will be asked again
    SET_ASIDE = "set aside"  # some are dead letters: the database refuses them for good; the others are in it
    REFUSED = "refused"  # nowhere: neither disk nor database took them; only the caller has them


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of one hand-over."""

    fate: Fate
    rows: int
    reason: str = ""
    """Why they are not in the database, for people."""
    dead: int = 0
    """How many of them are dead letters."""
    kept_in: str = ""
    """The outbox that has them, if they are kept."""

    @property
    def safe(self) -> bool:
        """A crash from now on does not lose them."""
        return self.fate is not Fate.REFUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A choice of rows: those that match everything that is given."""

    sweep: str | None = None
    where: Mapping[str, Value] = field(default_factory=dict)
    """Values on axes by name, e.g. ``{"dataset": "wine", "fold": 2}``; 2 and 2.0 are one value, 1 and True are two."""
    name: str | None = None
    run_status: RowStatus | None = None


ALL = Filter()


@dataclass(frozen=True, slots=True)
class Damage:
    """A line of an outbox that cannot be read; it becomes a dead letter."""

    path: Path
    line: int
    reason: str
    content: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Recovery:
    """The rows that opening the store found of processes that ended without closing it."""

    rows: int = 0
    """Rows that were in outboxes."""
    damaged: tuple[Damage, ...] = ()
    reason: str = ""
    """Why those rows are still in the outboxes; empty if they are in the database."""


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
    """``row``, ``attempt``, ``sweep``, ``incident``, or ``line`` for one of an outbox that cannot be read."""
    content: str
    """The line it is in an outbox."""


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """The result of trying dead letters again."""

    replayed: int = 0
    """They are in the database now, and dead letters no longer."""
    left: tuple[DeadLetter, ...] = ()
    """They were refused again; each has its newest reason."""
    reason: str = ""
    """Why the rest could not be tried at all; empty if all were."""


class Store(Protocol):
    """The home of results. A row exists when the store has it."""

    @property
    def recovery(self) -> Recovery: ...

    @property
    def waiting(self) -> int:
        """The number of rows in the outbox and not in the database."""
        ...

    def put(self, rows: Iterable[Row]) -> Receipt:
        """Store the rows in one transaction; twice is the same as once.

        Of two rows with one key a finished one stays before a failed one, then the later attempt, and of two that
        differ although they are the same attempt always the same one: the order in which they come does not matter.
        A row that was marked failed stays before all of its own and earlier attempts, and gives way to a finished one
        of a later attempt.
        """
        ...

    def mark_failed(self, keys: Iterable[str], reason: str) -> int:
        """Let results that are there count no longer; how many that were.

        Each row becomes a failed one with this reason and keeps everything else, so that it can be looked into and is
        computed again. The next computation must carry a later attempt than the marked row, which ``find`` tells: a row
        of the same attempt that arrives late changes nothing. Rows that are marked already stay as they are.
        """
        ...

    def submit(self, rows: Iterable[Row]) -> Future[Receipt]:
        """Put without waiting. Rows submitted meanwhile are written together, in the order they came."""
        ...

    def submit_attempts(self, attempts: Iterable[AttemptRow]) -> Future[Receipt]:
        """Note attempts without waiting. Of two notes of one attempt that with an end is kept."""
        ...

    def attempts(self, keys: Iterable[str]) -> dict[str, list[AttemptRow]]:
        """Return what was tried for these rows, by key and in the order of the attempts."""
        ...

    def put_run(self, run: SweepRun, *, token: int | None = None) -> Receipt:
        """Store where a sweep is. Having ended stays before running, and the later end before the earlier.

        With the token of a lease it is stored only if that lease is still held; LeaseLostError says that it is not.
        """
        ...

    def put_incident(self, incident: IncidentRow) -> Receipt:
        """Store what went wrong, for those who look from other machines. Of two with one id the later is kept."""
        ...

    def incidents(self, sweep: str | None = None) -> list[IncidentRow]:
        """Return those of a sweep or all, in the order they began."""
        ...

    def replay(self) -> Receipt:
        """Try now to move what waits in the outbox into the database."""
        ...

    def keys(self, wanted: Filter = ALL) -> set[str]: ...

    def rows(self, wanted: Filter = ALL) -> Iterator[Row]:
        """Return rows in the order they were written."""
        ...

    def get(self, run_key: str) -> Row | None: ...

    def find(self, keys: Iterable[str]) -> dict[str, Row]:
        """Return those of many keys that are there, in few questions."""
        ...

    def runs(self, sweep: str | None = None) -> list[SweepRun]:
        """Return sweeps that were started, in that order."""
        ...

    def config(self) -> Config:
        """Return the live configuration; version 0 while none was set. It has its row from the first sweep on."""
        ...

    def set_config(
        self,
        base_env: Mapping[str, Any],
        *,
        factor: str | None,
        variant: str | float | bool | None,
        reason: str,
        expect_version: int,
        token: int | None = None,
    ) -> Config:
        """Replace the live configuration if nobody else did since ``expect_version``, else raise ConfigChanged.

        Every version stays in the history, so a change is undone by setting an earlier one again. Nothing waits in an
        outbox: a database that cannot be written is a StoreError.
        """
        ...

    def config_history(self) -> list[Config]:
        """Return every version that was set, the current one last."""
        ...

    def record_decision(self, decision: DecisionRow) -> DecisionRow:
        """Enter a decision into the ledger, or count another look at the entry with the same id; return the entry.

        Of a further look, verdicts against the same baseline replace the earlier ones, locks are added, and the larger
        level stays. Nothing waits in an outbox: a database that cannot be written is a StoreError.
        """
        ...

    def ledger(self, sweep: str | None = None) -> list[DecisionRow]:
        """Return the decisions about a sweep, or all, in the order of their first look."""
        ...

    def dead_letters(self) -> list[DeadLetter]:
        """Return what the database refused for good, the oldest first."""
        ...

    def replay_dead_letters(self, ids: Iterable[str] | None = None) -> ReplayOutcome:
        """Try dead letters again, all unless some are named; those that are taken are no dead letters any more."""
        ...

    def drop_dead_letters(self, ids: Iterable[str] | None = None) -> int:
        """Forget dead letters, all unless some are named; how many that were."""
        ...

    def leases(self, ttl_s: float = TTL_S) -> Leases:
        """Return the leases in this store. ``ttl_s`` is how long one who is not heard of keeps its own."""
        ...

    def work_leases(self, run_id: str, ttl_s: float = TTL_S) -> WorkLeases:
        """Return the leases of a run on the jobs that it computes; it has none before it takes some."""
        ...

    def holds(self, token: int) -> bool:
        """Return whether the lease with this token is still held by who was given it."""
        ...

    def close(self) -> None:
        """Write what was submitted and release everything; closing twice does no harm."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
