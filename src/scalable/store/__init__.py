"""Where results live: one row per run, written once however often it is sent, and never lost once acknowledged.

Importing this is cheap; the database library is imported when a store is opened.
"""

from __future__ import annotations

from pathlib import Path

from scalable.store.decisions import DecisionRow
from scalable.store.errors import (
    ConfigChanged,
    LeaseLostError,
    NoStoreError,
    RefusedError,
    RowError,
    StoreError,
    StoreUrlError,
    ToldToStop,
)
from scalable.store.interface import (
    ALL,
    Config,
    Damage,
    DeadLetter,
    Fate,
    Filter,
    Receipt,
    Recovery,
    ReplayOutcome,
    Store,
)
from scalable.store.leases import TTL_S, Decide, Lease, Leases, Taken, Ticket, WorkLeases, held
from scalable.store.rows import AttemptRow, IncidentRow, Row, RowStatus, SweepRun, SweepStatus
from scalable.store.urls import location_of

PATIENCE_S = 5.0  # how long one try waits for another writer; three tries make a writer's stall visible in 15 s
ASK_AGAIN_S = 10.0  # how often the database is asked again while rows wait in the outbox


def open_store(
    url: str, *, patience_s: float = PATIENCE_S, ask_again_s: float = ASK_AGAIN_S, folder: Path | None = None,
    create: bool = True,
) -> Store:  # fmt: skip
    """Open the store at a URL such as ``sqlite:///.scalable/results.db`` or ``postgresql://user@host/database``.

    A file, its folders and the tables are made if need be; those of an earlier version are brought up to date. Without
    ``create`` a file that is not there is refused. Outboxes of a server lie in the project's ``folder``, else in the
    current one.

    Rows that a crashed process left in its outbox are moved into the database first; ``recovery`` tells of them.
    """
    from scalable.store.sql import SqlStore

    location = location_of(url, folder)
    if not create and isinstance(location.at, Path) and not location.at.exists():
        raise NoStoreError(f"no store at {location.at} yet; scalable run  makes it")
    return SqlStore(location, patience_s, ask_again_s)


__all__ = [
    "ALL",
    "TTL_S",
    "AttemptRow",
    "Config",
    "ConfigChanged",
    "Damage",
    "DeadLetter",
    "Decide",
    "DecisionRow",
    "Fate",
    "Filter",
    "IncidentRow",
    "Lease",
    "LeaseLostError",
    "Leases",
    "NoStoreError",
    "Receipt",
    "Recovery",
    "RefusedError",
    "ReplayOutcome",
    "Row",
    "RowError",
    "RowStatus",
    "Store",
    "StoreError",
    "StoreUrlError",
    "SweepRun",
    "SweepStatus",
    "Taken",
    "Ticket",
    "ToldToStop",
    "WorkLeases",
    "held",
    "open_store",
]
