"""A sweep's slot: its right to run among the sweeps of all processes and machines that share a store.

The rule is the engine's own; the store only sees to it that two who ask at once are answered one after the other. It
is asked before any worker is started, so nobody pays for waiting. A slot is a lease that is held by a heartbeat: who
dies loses it after a while, and who cannot reach the store starts nothing more until the slot is held again.

Several processes are one holder where an outer scheduler fans a sweep out into tasks: who names a holder joins the
slot that this holder has, and leaves it to the others. Such a slot bears longer silence, since from one task to the
next nobody may be there to keep it; ``give_back`` ends it. A run of the whole sweep ends it, too, when it comes to its
own end: it has no other tasks, but a driver that was lost or interrupted is started again and goes on in its slot.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from getpass import getuser
from types import TracebackType
from typing import TYPE_CHECKING, Self

from scalable import proc
from scalable.engine.events import SweepKind
from scalable.engine.sweeps import obstacle
from scalable.errors import UsageError
from scalable.session.operate.measures import STORE
from scalable.store import StoreError, ToldToStop

if TYPE_CHECKING:
    from scalable.session.driver.driver import Driver
    from scalable.store import Lease, Store, Ticket

ASK_EVERY_S = 1.0  # while it waits: a slot is free for a second at most before it is taken
LIFE_S = 30.0  # after which a silent holder is taken for dead
SHARED_LIFE_S = 900.0  # the same of several tasks: a retry comes after up to 5 min, its node up to 5 min later
SILENT_S = 300.0  # how long one who waits for a slot bears a store that does not answer
LOST = "its slot among the sweeps of its store is lost; nothing more is started meanwhile"
GIVEN_UP = "it waits no more"
CLIMBS = "what is left of it ran out of memory and needs the larger profile; it waits until heavy work may run"
BEATS_PER_LIFE = 6  # heartbeats within the time after which a silent holder is taken for dead


class Slot:
    """Use as ``with``: entered when the sweep may run, left when it has ended."""

    def __init__(
        self, store: Store, name: str, kind: SweepKind, normal: int, tell: Callable[[str], None], holder: str = "",
        whole: bool = False,
    ) -> None:  # fmt: skip
        self.name = name
        self.kind = kind
        self.normal = normal
        """How many normal sweeps may run at once."""
        self.tell = tell
        """Called with the reason whenever it waits, before it has its slot or when it lost it."""
        self.on_change: Callable[[str], None] = unheard
        """Called when the slot is lost or given up, with a sentence about it; with nothing when it is held again."""
        self.on_answer: Callable[[str], None] = unheard
        """Called with every heartbeat, with why the store did not answer it."""
        self.lost = ""
        """Why nothing is started now; empty while the slot is held."""
        self.shared = bool(holder)
        """Others have it, too: what ends here does not end it."""
        self.whole = whole
        """The whole sweep is run under it, so that its own end is that of its slot."""
        self.life = SHARED_LIFE_S if holder else LIFE_S
        self.store = store
        self.ticket = asked(store, name, kind, holder)
        self.climbing = False
        """The normal slot is to be exchanged for a heavy one."""
        self.lock = threading.Lock()
        """Who changes ``lost`` says so before another does."""
        self.since: float | None = None
        """Since when its holder has or wants it, by the store's clock."""
        self.waited = False
        """Whether it did not get its slot at once."""
        self.heard = time.monotonic()
        """When the store last knew of it."""
        self.over = False
        self.stir = threading.Event()
        """Set when the thread has something to do at once."""
        self.thread = threading.Thread(target=self.beat, name="scalable-slot", daemon=True)

    def __enter__(self) -> Self:
        try:
            last = ""
            while obstacle := self.awaited():
                self.waited = True
                if obstacle != last:
                    self.tell(obstacle)
                    last = obstacle
                time.sleep(ASK_EVERY_S)
        except BaseException:
            self.give_up()
            raise
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over = True
        self.stir.set()
        self.thread.join()
        interrupted = kind is not None and not issubclass(kind, Exception)
        if not self.shared or (self.whole and not interrupted):
            self.leave()

    @contextmanager
    def held_for(self, driver: Driver) -> Iterator[None]:
        """Have a driver hear of every change, and of a loss before; it says when it has only heavy work left."""
        self.on_change, driver.on_heavy = driver.slot_changed, self.climb
        self.on_answer = partial(driver.measures.dependencies.note, STORE)
        if self.lost:
            self.on_change(self.lost)
        try:
            yield
        finally:
            self.on_change = self.on_answer = driver.on_heavy = unheard
            driver.slot_changed("")

    def climb(self, sweep: str) -> None:
        """Exchange a normal slot for a heavy one: while it waits it holds none, so nobody waits for it.

        A slot that several processes share stays what it is: the others have normal work.
        """
        if self.kind is SweepKind.NORMAL and not self.shared:
            with self.lock:
                self.kind, self.climbing, self.lost = SweepKind.HEAVY, True, CLIMBS
                self.on_change(CLIMBS)
            self.stir.set()

    def awaited(self) -> str:
        """Why it waits; empty once it has its slot."""
        try:
            answer = self.ticket.try_take(self.decide)
        except ToldToStop:
            raise
        except StoreError as error:
            if time.monotonic() - self.heard > SILENT_S:
                raise
            return str(error)
        self.heard = time.monotonic()
        if isinstance(answer, str):
            return answer
        self.since = answer.requested_at
        return ""

    def decide(self, holders: list[Lease], before: list[Lease]) -> str:
        """Why the sweep may not start now; empty if it may."""
        return obstacle(self.kind, map(seen, holders), [seen(lease) for lease in before], self.normal)

    def beat(self) -> None:
        while True:
            self.stir.wait(ASK_EVERY_S if self.lost else LIFE_S / BEATS_PER_LIFE)
            self.stir.clear()
            if self.over:
                return
            held = self.kept()
            with self.lock:
                lost = "" if held and not self.climbing else self.lost or LOST
                if lost != self.lost:
                    self.lost = lost
                    self.on_change(lost)
                    if lost:
                        with suppress(Exception):  # whoever is told may be gone; the slot must be had again
                            self.tell(lost)

    def kept(self) -> bool:
        """Return whether the slot is still held, or held again."""
        try:
            if self.climbing:
                self.ticket.release()
                self.ticket = asked(self.store, self.name, self.kind, "")
                self.climbing = False
            kept = self.ticket.token is not None and self.ticket.beat()
            self.on_answer("")
            if kept or not isinstance(self.ticket.try_take(self.decide), str):
                self.heard = time.monotonic()
                return True
            return False
        except StoreError as error:
            self.on_answer(str(error))  # nobody can have taken the slot yet if it was heard of lately
            return not self.lost and time.monotonic() - self.heard < self.life / 2

    def give_up(self) -> None:
        """Stand in line no more. What others of the same holder have by now stays theirs; who still waits asks anew."""
        with suppress(StoreError):  # it expires by itself
            try:
                others = self.shared and not isinstance(self.ticket.try_take(lambda *_: GIVEN_UP), str)
            except ToldToStop:  # all of this holder were
                others = False
            if not others:
                self.ticket.release()

    def leave(self) -> None:
        with suppress(StoreError):  # it expires by itself
            self.ticket.release()


def asked(store: Store, name: str, kind: SweepKind, holder: str) -> Ticket:
    if holder:
        return store.leases(SHARED_LIFE_S).ask(name, kind.value, holder, shared=True)
    return store.leases(LIFE_S).ask(name, kind.value, f"{socket.gethostname()}:{os.getpid()}")


def gone(lease: Lease) -> bool:
    """Return whether the holder of a lease that has not expired is a process of this machine that has ended."""
    host, _, pid = lease.holder.rpartition(":")
    if host != socket.gethostname() or not pid.isdecimal():
        return False
    process = proc.look(int(pid))
    return process is None or not process.alive


def give_back(store: Store, name: str, kind: SweepKind, holder: str) -> None:
    """End the slot of a holder, for all its processes; refused if it has none."""
    holders = [lease.holder for lease in store.leases().list() if lease.name == name]
    if holder not in holders:
        those = f"{', '.join(holders)} {'has one' if len(holders) == 1 else 'have'}" if holders else "nobody has one"
        raise UsageError(f"{holder} has no slot of {name}; {those}")
    asked(store, name, kind, holder).release()


def tell_to_stop(store: Store, holder: str) -> list[Lease]:
    """Have a holder that waits give up; return what it waited for. Refused if it waits for nothing."""
    leases = store.leases()
    known = leases.list()
    own = [lease for lease in known if lease.holder == holder]
    who = f"{getuser()}@{socket.gethostname()}"
    stopped = [lease for lease in own if not lease.held and leases.tell_to_stop(lease, who)]
    if stopped:
        return stopped
    if own:
        raise UsageError(f"{holder} runs {own[0].name} and does not wait; scalable stop  ends a run")
    waiting = ", ".join(lease.holder for lease in known if not lease.held) or "nobody"
    raise UsageError(f"{holder} does not wait for a slot; who does: {waiting}")


def unheard(_: str) -> None:
    """Nobody needs to know: nothing was started yet, or all has ended."""


def seen(lease: Lease) -> tuple[str, SweepKind]:
    return f"{lease.name} ({lease.holder})", SweepKind(lease.kind)
