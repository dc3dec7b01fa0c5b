"""Leases: somebody has the right to something, others wait, and the dead lose it.

A *claim* is a wish for a lease. ``take`` gets it if it is free, ``beat`` keeps it, ``release`` gives it back, and
``held`` does all three for the length of a ``with`` block:

    with held(claim):            # waits until it is free, keeps it alive, gives it back
        ...
    with held(claim, wait=False) as free:
        if free: ...

How a dead holder is noticed depends on where the lease is kept, so there is one kind of claim per medium:

=================  =============================  ====================================================================
medium             claim                          a dead holder loses it
=================  =============================  ====================================================================
database row       ``store.leases().ask(...)``    when it expires unless renewed, by the database's clock; a fencing
                   (``leases.database``)          token keeps one that comes back too late from writing
file               ``file_lease(path)``           at once: the kernel gives up the locks of a process that ends
                   (``leases.files``)
object in a store  ``ObjectLeases(...).ask()``    at once if it was a process of this machine, else when it expires
                   (``leases.objects``)           unless renewed, by the object store's clock
=================  =============================  ====================================================================

Slots of sweeps are database rows: several may hold one at a time, and a rule decides who. The jobs that a run computes
are database rows, too: ``store.work_leases(run_id)`` takes many of them at once (``leases.work``). Results of stages,
cached functions and unsent tracking records are claimed by one process each, as files or objects. A *registration* is a
claim of things that many may use at once: it keeps artefacts from being collected while their user lives.

Where a medium cannot exclude others, as some network file systems cannot, every claim is granted: work is done twice
then, but no result is lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Protocol

TTL_S = 30.0  # how long a database keeps the lease of a holder that is not heard of: three missed heartbeats of 10 s
LONGEST_NAME = 60  # characters of a user's name in that of its registration


class Claim(Protocol):
    """A wish for a lease, in any medium."""

    @property
    def beat_every_s(self) -> float | None:
        """The seconds after which it must be renewed; None if the kernel watches over it."""
        ...

    @property
    def pauses_s(self) -> tuple[float, float]:
        """The seconds to wait before the second try to take it, and at most between two tries."""
        ...

    def take(self) -> bool:
        """Take the lease if nobody else has it; return whether it is held now."""
        ...

    def beat(self) -> bool:
        """Say that the holder, or who waits, lives; return False if the lease was lost.

        An error says that the medium could not be asked; the lease stays until it expires.
        """
        ...

    def release(self) -> None:
        """Give the lease back, or stop waiting; twice does no harm."""
        ...


@contextmanager
def held(claim: Claim, *, wait: bool = True) -> Iterator[bool]:
    """Hold a lease while within. Yields False if somebody else has it, which happens only without ``wait``."""
    pause, longest = claim.pauses_s
    try:
        while not (taken := claim.take()) and wait:
            time.sleep(pause)
            pause = min(1.5 * pause, longest)
        with renewed(claim) if taken else nullcontext():
            yield taken
    finally:
        with suppress(Exception):  # what was done under it is worth more: a lease that cannot be given back expires
            claim.release()


@contextmanager
def renewed(claim: Claim) -> Iterator[None]:
    """Keep a lease alive while within, from a thread, if its medium needs that."""
    every_s = claim.beat_every_s
    if every_s is None:
        yield
        return
    done = threading.Event()

    def renew() -> None:
        while not done.wait(every_s):
            with suppress(Exception):  # a medium that does not answer now may answer the next time
                claim.beat()

    renewer = threading.Thread(target=renew, name="scalable-lease", daemon=True)
    renewer.start()
    try:
        yield
    finally:
        done.set()
        renewer.join()


@dataclass(frozen=True, slots=True)
class Lease:
    """A row of the database: a lease that somebody holds or waits for. Times are by its clock, in Unix seconds."""

    id: int
    """Who asked first has the smallest."""
    name: str
    kind: str
    holder: str
    """Who that is, for people: host and process."""
    token: int | None
    """Of a lease that is held; every taking has a higher one than all before it. None while it waits."""
    requested_at: float
    heartbeat: float
    expires: float

    @property
    def held(self) -> bool:
        return self.token is not None


Decide = Callable[[list[Lease], list[Lease]], str]
"""Is given those who hold a lease and those who wait for one and came earlier; returns why to wait, or nothing."""


class Ticket(Claim, Protocol):
    """A claim in a database. One that expires unheard of is gone, and then asked for anew at the end of the line."""

    @property
    def token(self) -> int | None:
        """The proof that the lease is held; None while it is not."""
        ...

    def try_take(self, decide: Decide) -> Lease | str:
        """Take a lease if ``decide`` has nothing against it, else return its reason. Nobody else decides meanwhile."""
        ...


class Leases(Protocol):
    """The leases in a database, across processes and machines."""

    def ask(self, name: str, kind: str, holder: str = "", *, shared: bool = False) -> Ticket:
        """Stand in line. ``kind`` is for those who decide; ``holder`` is this process unless it is said otherwise.

        All who ask ``shared`` with the same name and holder have one lease together: each keeps it by its heartbeat,
        and whoever of them releases it does so for all.
        """
        ...

    def tell_to_stop(self, lease: Lease, who: str) -> bool:
        """Have whoever waits for a lease give up; return False if it does not wait any more."""
        ...

    def list(self) -> Sequence[Lease]:
        """Return those who hold a lease, then those who wait, each in the order they asked."""
        ...


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to a run that asks for jobs."""

    own: frozenset[str]
    """Keys of the jobs among those asked for that it may compute."""
    others: frozenset[str]
    """Keys of all jobs that other runs compute now."""
    lost: bool = False
    """Its earlier leases expired and were removed: of all jobs it has those in ``own`` only."""


class WorkLeases(Protocol):
    """The leases of one run: on itself, and on each job that it computes now."""

    @property
    def beat_every_s(self) -> float:
        """The seconds after which they must be renewed."""
        ...

    def take(self, wanted: Collection[str] = (), done: Iterable[str] = ()) -> Taken:
        """Give back jobs that are ``done``, and take those of the ``wanted`` ones that no other run has.

        The first call takes the lease of the run itself. Whoever has a job gives it back after its rows are in the
        store; so rows that are not there once the job is taken will not come from anybody else.
        """
        ...

    def held_by_others(self) -> frozenset[str]:
        """Return the keys of all jobs that other runs compute now."""
        ...

    def living(self) -> frozenset[str]:
        """Return the ids of all other runs that live, whatever they compute."""
        ...

    def beat(self) -> bool:
        """Renew everything that this run has; return False if it was lost."""
        ...

    def release(self) -> None:
        """Give everything back and take nothing more; twice does no harm."""
        ...
