"""How many results a second are stored: one by one in a file, against sqlite3 committing each row, and in batches on a
PostgreSQL, against psycopg's own executemany.

All end with every row durable on the same disk (SQLite: WAL, synchronous=FULL; PostgreSQL: fsync on), in turns.
"""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

from tests.tools.errors import ToolMissingError
from tests.tools.postgres import PrivatePostgres

from scalable.store import Fate, Row, open_store

ROWS = 2000
WAITED_FOR = 500  # rows whose writer waits for each before it makes the next
BATCH = 1000
BATCHES = 20
FOUND = 10_000
TURNS = 3


def measure() -> dict[str, Any]:
    """Rows a second, medians of several turns."""
    return {"sqlite": one_by_one(), "postgresql": in_batches()}


def one_by_one() -> dict[str, Any]:
    """Handed over one by one, waiting for each receipt, and sqlite3."""
    rows = [a_row(number) for number in range(ROWS)]
    submitted, waited, bare = [], [], []
    for _ in range(TURNS):
        with tempfile.TemporaryDirectory() as folder:
            submitted.append(ROWS / seconds_submitted(Path(folder) / "submitted.db", rows))
            waited.append(WAITED_FOR / seconds_waited_for(Path(folder) / "waited.db", rows[:WAITED_FOR]))
            bare.append(ROWS / seconds_plain(Path(folder) / "plain.db", rows))
    return {
        "rows": ROWS,
        "rows_per_second": statistics.median(submitted),
        "goal_rows_per_second": 1000,
        "rows_per_second_waiting_for_each": statistics.median(waited),
        "sqlite3_rows_per_second": statistics.median(bare),
        "ratio_to_sqlite3": statistics.median(submitted) / statistics.median(bare),
        "goal_ratio": 1.0,
    }


def in_batches() -> dict[str, Any]:
    """Batches through the store and through the driver alone, then rows found again by their keys."""
    rows = [a_row(number) for number in range(BATCH * BATCHES)]
    ours, waited, bare = [], [], []
    found: list[float] = []
    try:
        server = PrivatePostgres()
    except ToolMissingError as missing:
        return {"not measured": str(missing)}
    with server, tempfile.TemporaryDirectory() as folder, inside(Path(folder)):
        for _ in range(TURNS):
            ours.append(len(rows) / seconds_in_batches(server.new_place(), rows, found))
            waited.append(WAITED_FOR / seconds_each(server.new_place(), rows[:WAITED_FOR]))
            bare.append(len(rows) / seconds_executemany(server.new_place(), rows))
    return {
        "rows": len(rows),
        "batch": BATCH,
        "rows_per_second": statistics.median(ours),
        "goal_rows_per_second": 20_000,
        "rows_per_second_waiting_for_each": statistics.median(waited),
        "psycopg_executemany_rows_per_second": statistics.median(bare),
        "ratio_to_psycopg": statistics.median(ours) / statistics.median(bare),
        f"seconds_to_find_{FOUND}": statistics.median(found),
    }


def a_row(number: int) -> Row:
    return Row(
        run_key=f"{number:032x}",
        sweep="calibration",
        factor="calibration",
        variant="isotonic",
        asset="AAVEUSDC",
        fold=number % 5,
        cost_bps=10.0,
        metrics={"sharpe": number / 7, "drawdown": 0.12, "trades": number},
        buys=number,
        elapsed_s=41.5,
    )


def seconds_submitted(path: Path, rows: list[Row]) -> float:
    with open_store(f"sqlite:///{path}") as store:
        start = time.perf_counter()
        receipts = [store.submit([row]) for row in rows]
        assert all(receipt.result().fate is Fate.COMMITTED for receipt in receipts)
        return time.perf_counter() - start


def seconds_waited_for(path: Path, rows: list[Row]) -> float:
    return seconds_each(f"sqlite:///{path}", rows)


def seconds_each(url: str, rows: list[Row]) -> float:
    with open_store(url) as store:
        start = time.perf_counter()
        for row in rows:
            assert store.put([row]).fate is Fate.COMMITTED
        return time.perf_counter() - start


def seconds_plain(path: Path, rows: list[Row]) -> float:
    values = [row.to_dict() for row in rows]
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    names = list(values[0])
    connection.execute(f"CREATE TABLE results ({', '.join(names)}, PRIMARY KEY (run_key))")
    insert = f"INSERT OR REPLACE INTO results VALUES ({', '.join('?' * len(names))})"
    start = time.perf_counter()
    for each in values:
        connection.execute(insert, [json.dumps(v) if isinstance(v, dict) else v for v in each.values()])
        connection.commit()
    took = time.perf_counter() - start
    connection.close()
    return took


def seconds_in_batches(url: str, rows: list[Row], found: list[float]) -> float:
    with open_store(url) as store:
        start = time.perf_counter()
        receipts = [store.submit(rows[first : first + BATCH]) for first in range(0, len(rows), BATCH)]
        assert all(receipt.result().fate is Fate.COMMITTED for receipt in receipts)
        took = time.perf_counter() - start
        start = time.perf_counter()
        assert len(store.find(row.run_key for row in rows[:FOUND])) == FOUND
        found.append(time.perf_counter() - start)
        return took


def seconds_executemany(url: str, rows: list[Row]) -> float:
    open_store(url).close()  # makes the table
    names = [name for name in rows[0].to_dict() if name != "written_at"]
    places = ", ".join(["%s"] * len(names))
    insert = f"INSERT INTO finetune_results ({', '.join(names)}, written_at, digest) VALUES ({places}, 0, '')"
    with PrivatePostgres.connection_to(url) as connection:
        start = time.perf_counter()
        for first in range(0, len(rows), BATCH):
            values = [[getattr(row, name) for name in names] for row in rows[first : first + BATCH]]
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(
                    f"{insert} ON CONFLICT (run_key) DO UPDATE SET metrics = excluded.metrics",
                    [[plain(value) for value in each] for each in values],
                )
        return time.perf_counter() - start


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return json.dumps(value)
    return value.value if isinstance(value, Enum) else value


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """The outbox of a server's store is in the current folder: on the same disk as all the others."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
