"""How many results a second are stored, each handed over by itself, against sqlite3 committing each row.

Both end with every row durable in an SQLite file (WAL, synchronous=FULL) on the same disk, measured in turns.
"""

from __future__ import annotations

import json
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from scalable.store import Fate, Row, open_store

ROWS = 2000
WAITED_FOR = 200  # rows whose writer waits for each before it makes the next
TURNS = 3


def measure() -> dict[str, Any]:
    """Rows a second, medians of several turns: handed over one by one, waiting for each receipt, and sqlite3."""
    rows = [a_row(number) for number in range(ROWS)]
    submitted, waited, plain = [], [], []
    for _ in range(TURNS):
        with tempfile.TemporaryDirectory() as folder:
            submitted.append(ROWS / seconds_submitted(Path(folder) / "submitted.db", rows))
            waited.append(WAITED_FOR / seconds_waited_for(Path(folder) / "waited.db", rows[:WAITED_FOR]))
            plain.append(ROWS / seconds_plain(Path(folder) / "plain.db", rows))
    return {
        "rows": ROWS,
        "rows_per_second": statistics.median(submitted),
        "rows_per_second_waiting_for_each": statistics.median(waited),
        "sqlite3_rows_per_second": statistics.median(plain),
        "ratio_to_sqlite3": statistics.median(submitted) / statistics.median(plain),
        "goal_ratio": 1.0,
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
    with open_store(f"sqlite:///{path}") as store:
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
