"""What the other processes of these tests do."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections import deque
from concurrent.futures import Future
from multiprocessing.connection import Connection
from stat import S_ISREG
from typing import Any

from scalable.engine.events import SweepKind
from scalable.engine.sweeps import obstacle
from scalable.store import Lease, LeaseLostError, Receipt, Row, StoreError, SweepRun, open_store
from scalable.store.database import Database
from scalable.store.outbox import Outbox
from scalable.testing.store import a_failed_row, a_row
from scalable.testing.store_ledger import a_decision
from tests.helpers.store.trouble import without_rights

AT_ONCE = 20  # hand-overs under way, so that groups form


def write_for_ever(mouth: Connection, url: str, seed: int) -> None:
    """Write rows in hand-overs of one to five, again and again with later attempts; say which are acknowledged."""
    random_numbers = random.Random(seed)
    with open_store(url, patience_s=0.2) as store:
        mouth.send("ready")
        under_way: deque[tuple[list[Row], Future[Receipt]]] = deque()
        for number in itertools.count():
            rows = [
                (a_failed_row if random_numbers.random() < 0.2 else a_row)(
                    (seed, random_numbers.randrange(max(1, number))), attempt=number // 10 + 1, elapsed_s=number
                )
                for _ in range(random_numbers.randint(1, 5))
            ]
            under_way.append((rows, store.submit(rows)))
            while len(under_way) > AT_ONCE or (under_way and under_way[0][1].done()):
                written, receipt = under_way.popleft()
                if receipt.result().safe:
                    mouth.send([row.to_dict() for row in written])


def die_at(mouth: Connection, url: str, moment: str) -> None:
    """Put three rows and be killed at the moment."""

    def die(*_: Any, **__: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    really = os.pwrite

    def half(file: int, lines: Any, offset: int) -> int:
        really(file, lines[: len(lines) * 5 // 12], offset)
        return int(die())

    def at_a_file(file: Any) -> None:
        if S_ISREG(os.fstat(file).st_mode):
            die()

    match moment:
        case "in the middle of a line":
            os.pwrite = half
        case "before the outbox is safe":
            os.fsync = at_a_file  # type: ignore[assignment]
        case "before the database is asked":
            Database.write = die  # type: ignore[method-assign]
        case "before the outbox is emptied":
            Outbox.clear = die  # type: ignore[method-assign]
    store = open_store(url)
    store.put([a_row(number) for number in range(3)])
    mouth.send("acknowledged")
    die()


def put_some(mouth: Connection, url: str, name: object, count: int) -> None:
    with open_store(url, patience_s=60) as store:
        receipts = [store.put([a_row((name, number))]) for number in range(count)]
    mouth.send({receipt.fate for receipt in receipts})


def keep_in_the_outbox(mouth: Connection, url: str) -> None:
    """Put rows while the database is locked, tell what became of them, and wait to be killed."""
    store = open_store(url, patience_s=0.01, ask_again_s=600)
    for number in range(3):
        mouth.send(store.put([a_row(number)]))
    signal.pause()


def use_without_rights(mouth: Connection, url: str) -> None:
    without_rights()
    try:
        with open_store(url, patience_s=0.01) as store:
            mouth.send(store.put([a_row()]))
    except StoreError as error:
        mouth.send(str(error))


def read_without_rights(mouth: Connection, url: str) -> None:
    """Tell what a store has that cannot be written, and why its ledger takes no decision."""
    without_rights()
    with open_store(url, patience_s=0.01) as store:
        mouth.send((store.keys(), len(store.ledger())))
        try:
            store.record_decision(a_decision("second"))
        except StoreError as error:
            mouth.send(str(error))


def take_part(mouth: Connection, url: str, name: str, kind: str, ttl_s: float, sleeps: bool) -> None:
    """Ask for a place as a sweep would, say when it is taken and when it is lost, and live until killed.

    One that ``sleeps`` is stopped as soon as it has its place, until somebody wakes it.
    """

    def decide(holders: list[Lease], before: list[Lease]) -> str:
        return obstacle(
            SweepKind(kind),
            [(lease.name, SweepKind(lease.kind)) for lease in holders],
            [(lease.name, SweepKind(lease.kind)) for lease in before],
            2,
        )

    with open_store(url, patience_s=30) as store:
        ticket = store.leases(ttl_s).ask(name, kind)
        mouth.send("asked")
        while isinstance(ticket.try_take(decide), str):
            time.sleep(ttl_s / 20)
        holders = {lease.name for lease in store.leases().list() if lease.held}
        mouth.send((ticket.token, holders))
        if sleeps:
            os.kill(os.getpid(), signal.SIGSTOP)
        while ticket.beat():
            time.sleep(ttl_s / 10)
        try:
            store.put_run(SweepRun(id=name, sweep=name, started=1.0), token=ticket.token)
        except LeaseLostError as error:
            mouth.send(str(error))
