"""How many results a second are stored: one by one in a file, against sqlite3 committing each row, and in batches on a
PostgreSQL, against psycopg's own executemany. All end with every row durable on the same disk (SQLite: WAL,
synchronous=FULL; PostgreSQL: fsync on), in turns.

``million_in_a_file`` and ``million_on_a_server`` measure the tables at a million rows, beside the tables of version 4
with the same rows, which are brought up to date at the end.
"""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql
from tests.tools.errors import ToolMissingError
from tests.tools.postgres import PrivatePostgres

from scalable.store import Fate, Filter, Row, open_store
from scalable.store.tables import runs
from scalable.store.versions import results_before_axes

ROWS = 2000
WAITED_FOR = 500  # rows whose writer waits for each before it makes the next
BATCH = 1000
BATCHES = 20
FOUND = 10_000
TURNS = 3
MILLION = int(os.environ.get("SCALABLE_BENCH_ROWS", "1000000"))
SWEEPS = 10
QUESTION = "SELECT variant, avg(cost_bps), count(*) FROM finetune_results WHERE sweep = 'sweep 3' AND {} GROUP BY 1"
QUESTIONS = {"asset": "asset = 'ASSET 42'", "fold": "fold = 4", "buys": "buys < 50000"}
"""Conditions that operators write on columns that were in the table and are made by a view now."""


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


def million_in_a_file() -> dict[str, Any]:
    """A million rows in an SQLite file."""
    with tempfile.TemporaryDirectory() as folder:
        new, old = Path(folder) / "new.db", Path(folder) / "old.db"
        figures = written_and_read(f"sqlite:///{new}")
        figures |= {"bytes_per_row": new.stat().st_size / MILLION}
        with closing(sqlite3.connect(new)) as connection:
            figures |= asked(lambda question: connection.execute(question).fetchall())
        open_store(f"sqlite:///{old}").close()
        with closing(sqlite3.connect(old)) as connection:
            connection.execute("ATTACH ? AS new", (str(new),))
            for statement in TO_VERSION_4:
                connection.execute(statement.format(source="new."))
            connection.commit()
            before = asked(lambda question: connection.execute(question).fetchall())
        before |= {"bytes_per_row": old.stat().st_size / MILLION}
        return {"million_in_a_file": {**figures, "version_4": before, **upgraded(f"sqlite:///{old}")}}


def million_on_a_server() -> dict[str, Any]:
    """A million rows on a PostgreSQL server."""
    try:
        server = PrivatePostgres()
    except ToolMissingError as missing:
        return {"million_on_a_server": {"not measured": str(missing)}}
    with server, tempfile.TemporaryDirectory() as folder, inside(Path(folder)):
        new, old = server.new_place(), server.new_place()
        figures = written_and_read(new)
        server.execute("ANALYZE scalable_rows", new)
        [(size,)] = server.execute("SELECT pg_total_relation_size('scalable_rows')", new)
        figures |= {"bytes_per_row": size / MILLION, **asked(lambda question: server.execute(question, new))}
        open_store(old).close()
        [(schema,)] = server.execute("SELECT current_schema()", new)
        for statement in TO_VERSION_4:
            server.execute(statement.format(source=f"{schema}."), old)
        server.execute("ANALYZE finetune_results", old)
        [(size,)] = server.execute("SELECT pg_total_relation_size('finetune_results')", old)
        before = {"bytes_per_row": size / MILLION, **asked(lambda question: server.execute(question, old))}
        return {"million_on_a_server": {**figures, "version_4": before, **upgraded(old)}}


def columns_of(table: Table) -> str:
    types = {each.name: each.type.compile(postgresql.dialect()).partition(" COLLATE")[0] for each in table.columns}
    columns = [f"{name} {kind}" for name, kind in types.items()]
    return ", ".join([*columns, f"PRIMARY KEY ({', '.join(each.name for each in table.primary_key)})"])


TO_VERSION_4 = (
    "DROP VIEW finetune_results",
    "DROP VIEW finetune_runs",
    "DROP TABLE scalable_rows",
    "DROP TABLE scalable_runs",
    f"CREATE TABLE finetune_results ({columns_of(results_before_axes)})",
    "CREATE INDEX finetune_results_sweep ON finetune_results (sweep)",
    f"CREATE TABLE finetune_runs ({columns_of(runs)})",
    "INSERT INTO finetune_results SELECT * FROM {source}finetune_results",
    "UPDATE scalable_schema SET version = 4",
)
"""What gives an empty store the tables of version 4, with the rows of another."""


def written_and_read(url: str) -> dict[str, float]:
    """Seconds to write the rows in batches, and to read those of one sweep, and of one asset in it."""
    with open_store(url) as store:
        start = time.perf_counter()
        for first in range(0, MILLION, BATCH):
            assert store.put(map(a_cell, range(first, min(first + BATCH, MILLION)))).fate is Fate.COMMITTED
        written = time.perf_counter() - start
        start = time.perf_counter()
        assert sum(1 for _ in store.rows(Filter(sweep="sweep 3"))) == MILLION // SWEEPS
        read = time.perf_counter() - start
        start = time.perf_counter()
        assert (
            sum(1 for _ in store.rows(Filter(sweep="sweep 3", where={"asset": "ASSET 42"}))) == MILLION // SWEEPS // 100
        )
        return {
            "rows": MILLION,
            "rows_per_second": MILLION / written,
            "seconds_to_read_a_sweep": read,
            "seconds_to_read_an_asset_of_it": time.perf_counter() - start,
        }


def asked(ask: Callable[[str], list[Any]]) -> dict[str, float]:
    """Seconds for questions in SQL, the best of several turns."""
    figures = {}
    for name, condition in QUESTIONS.items():
        seconds = []
        for _ in range(TURNS):
            start = time.perf_counter()
            ask(QUESTION.format(condition))
            seconds.append(time.perf_counter() - start)
        figures[f"seconds_to_ask_for_{name}"] = min(seconds)
    return figures


def upgraded(url: str) -> dict[str, float]:
    """Seconds to bring a store of version 4 up to date."""
    start = time.perf_counter()
    with open_store(url) as store:
        took = time.perf_counter() - start
        assert len(store.keys()) == MILLION
    return {"seconds_to_upgrade": took}


def a_cell(number: int) -> Row:
    """One of a hundred assets, ten variants, ten folds and ten costs of one of ten sweeps."""
    rest, sweep = divmod(number, SWEEPS)
    rest, asset = divmod(rest, 100)
    variant, fold, cost = rest % 10, rest // 10 % 10, rest // 100 % 10
    return Row(
        run_key=f"{number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128:032x}",  # spread as keys are
        sweep=f"sweep {sweep}",
        axes={"calibration": f"v{variant}", "asset": f"ASSET {asset}", "fold": fold, "cost_bps": 2.5 * cost},
        compared=("calibration",),
        metrics={"sharpe": number / 7, "drawdown": 0.12, "buys": float(number % 100_000), "hit_rate": 0.51},
        elapsed_s=41.5,
        code_fingerprint="search:2940a67d row:1f00a67d",
        config_fingerprint="bef6125029787fc306caa40fa0f6f329",
        data_fingerprint="7fcc2d7bda5ab661d72486f972370563",
        worker="standard-0",
        run_id="run-20261117T202053Z-kept-da275875",
    )


def a_row(number: int) -> Row:
    return Row(
        run_key=f"{number:032x}",
        sweep="calibration",
        axes={"calibration": "isotonic", "asset": "AAVEUSDC", "fold": number % 5, "cost_bps": 10.0},
        compared=("calibration",),
        metrics={"sharpe": number / 7, "drawdown": 0.12, "trades": number},
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
    insert = f"INSERT INTO scalable_rows ({', '.join(names)}, written_at, digest) VALUES ({places}, 0, '')"
    with PrivatePostgres.connection_to(url) as connection:
        start = time.perf_counter()
        for first in range(0, len(rows), BATCH):
            dicts = [row.to_dict() for row in rows[first : first + BATCH]]
            values = [[each[name] for name in names] for each in dicts]
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
