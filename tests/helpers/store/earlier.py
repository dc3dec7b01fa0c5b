"""Stores that version 4 of the tables left (``tests/data/version_4``), and what must be true once they are opened.

The files were written by the last release with these tables: rows of all kinds, marks, runs, attempts, an incident, a
locked configuration, a dead letter and an outbox; and what its tables showed to those who read them with SQL.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from scalable.store import Filter, Row, RowStatus, SweepStatus, open_store
from scalable.store import versions as store_versions
from scalable.store.dialects import Sqlite
from scalable.testing.store_ledger import a_decision
from tests.helpers.paths import ROOT
from tests.helpers.store.children import put_some
from tests.helpers.store.trouble import Child
from tests.tools.postgres import PrivatePostgres

LEFT = ROOT / "tests/data/version_4"
TO_VERSION_4 = (
    "DROP TABLE scalable_ledger",
    "CREATE TABLE old_results AS SELECT * FROM finetune_results",
    "CREATE TABLE old_runs AS SELECT * FROM finetune_runs",
    "DROP VIEW finetune_results",
    "DROP VIEW finetune_runs",
    "DROP TABLE scalable_rows",
    "DROP TABLE scalable_runs",
    "ALTER TABLE old_results RENAME TO finetune_results",
    "ALTER TABLE old_runs RENAME TO finetune_runs",
    "UPDATE scalable_schema SET version = 4",
)
"""What makes tables of version 4 out of those of this version."""
IN_OUTBOX = {f"{number:032x}" for number in (91, 92)}
DEAD = f"{90:032x}"
MOMENTS = ("before the copy", "in the copy", "after the copy", "among the rows", "before the end")

Ask = Callable[[str], list[tuple[Any, ...]]]


def a_file(path: Path) -> str:
    """Make a file that version 4 left, with its outbox; return its URL."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((LEFT / "file.sql").read_text(encoding="utf-8"))
    outbox = path.with_name(f"{path.name}-outbox-0123456789abcdef.jsonl")
    outbox.write_bytes((LEFT / "outbox.jsonl").read_bytes())
    return f"sqlite:///{path}"


def a_place(url: str, outbox: Path) -> None:
    """Fill an empty place on a server with what version 4 left, and put its outbox where ``outbox`` says."""
    with PrivatePostgres.connection_to(url) as connection:
        connection.execute((LEFT / "server.sql").read_text(encoding="utf-8"))
    outbox.parent.mkdir(parents=True, exist_ok=True)
    outbox.with_name(f"{outbox.name}-outbox-0123456789abcdef.jsonl").write_bytes((LEFT / "outbox.jsonl").read_bytes())


def asking(url: str) -> Ask:
    """Return what asks the database itself."""

    def ask(statement: str) -> list[tuple[Any, ...]]:
        if not url.startswith("sqlite"):
            with PrivatePostgres.connection_to(url) as server:
                cursor = server.execute(statement)
                return list(cursor.fetchall()) if cursor.description else []
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            rows = file.execute(statement).fetchall()
            file.commit()
            return rows

    return ask


def key(number: int) -> str:
    return f"{number:032x}"


class UpgradeContract:
    """Tests of stores that version 4 left; the fixture ``left`` names one, which holds ``seen`` for readers of SQL."""

    seen = ""

    def test_every_row_is_there_and_counts_under_its_key(self, left: str) -> None:
        with open_store(left) as store:
            rows = {row.run_key: row for row in store.rows()}
            assert set(rows) == {*(row["run_key"] for row in self.shown("finetune_results")), *IN_OUTBOX}
            first = rows[key(1)]
            axes = {"calibration": "isotonic", "asset": "AAVEUSDC", "fold": 0, "cost_bps": 10.0}
            assert (list(first.axes.items()), first.compared) == (list(axes.items()), ("calibration",))
            assert (first.sweep, first.metrics["buys"], first.elapsed_s, first.run_id) == (
                "calibration",
                61.0,
                41.5,
                "run-1",
            )
            assert (rows[key(2)].marked, rows[key(2)].error, rows[key(2)].variant) == (True, "wrong prices", True)
            kinds = [True, 1, 1.0, "1", "true", "null", "NaN", '"1"', "90d", "a b/ü漢", "[", -0.5, 1e300, " 1 ", "none"]
            variants = [rows[key(number)].variant for number in range(2, 17)]
            assert [(each, type(each)) for each in variants] == [(each, type(each)) for each in kinds]
            assert rows[key(18)].metrics == {"sharpe": 0.5, "buys": 7}
            assert rows[key(19)].metrics == {"text": "ä 漢 \0 \ud800 \\u0041", "deep": {"buys": 5}}
            assert (rows[key(21)].name, rows[key(21)].value, rows[key(21)].axes) == (
                "clean the data", {"years": [2030, 2050], "ok": True}, {},
            )  # fmt: skip
            assert rows[key(25)].axes == {"fold_variant": 2, "asset": "AAVEUSDC", "fold": 1, "cost_bps": 1e16}
            assert rows[key(91)].variant == "1" and rows[key(91)].axes["asset"] == "UNIUSDC"
            assert store.keys(Filter(where={"asset": "Y Z/ü", "fold": 4})) == {key(23)}
            assert len(store.keys(Filter(run_status=RowStatus.FAILED))) == 2

    def test_who_reads_the_tables_with_sql_sees_what_was_there(self, left: str) -> None:
        open_store(left).close()
        ask = asking(left)
        for table in ("finetune_results", "finetune_runs"):
            shown = self.shown(table)
            columns = list(shown[0])
            first = "run_key" if table == "finetune_results" else "id"
            now = [dict(zip(columns, each, strict=True)) for each in ask(f"SELECT * FROM {table} ORDER BY 1")]
            there = {row[first] for row in shown}
            for before, after in zip(shown, [row for row in now if row[first] in there], strict=True):
                changed = {name for name in columns if repr(after[name]) != repr(before[name])}
                assert changed <= {"digest"} | self.allowed(before), (before, after)
            assert len(now) == len(shown) + (2 if table == "finetune_results" else 1), "what the outbox held"

    @staticmethod
    def allowed(before: dict[str, Any]) -> set[str]:
        """Return what may look different: a count that was only in its column, a factor called like another axis."""
        return {key(18): {"metrics"}, key(25): {"factor"}}.get(before.get("run_key", ""), set())

    def shown(self, table: str) -> list[dict[str, Any]]:
        found: dict[str, list[dict[str, Any]]] = json.loads((LEFT / self.seen).read_text(encoding="utf-8"))
        return found[table]

    def test_a_row_that_is_written_again_is_recognised(self, left: str) -> None:
        with open_store(left) as store:
            before = {row.run_key: row.written_at for row in store.rows()}
            store.put([Row.from_dict({**row.to_dict(), "written_at": None}) for row in store.rows()])
            assert {row.run_key: row.written_at for row in store.rows()} == before

    def test_everything_beside_rows_is_there(self, left: str) -> None:
        with open_store(left) as store:
            assert {run.id: run.status for run in store.runs()} == {
                "run-1 calibration": SweepStatus.FAILED,
                "run-2 depths": SweepStatus.RUNNING,
                "run-3 calibration": SweepStatus.RUNNING,
            }
            attempts = store.attempts([key(1), key(91)])
            assert {number: [each.started for each in tried] for number, tried in attempts.items()} == {
                key(1): [1.5],
                key(91): [299.0],
            }
            assert [incident.summary for incident in store.incidents()] == [{"why": "ü"}]
            assert (store.config().version, store.config().base_env) == (1, {"cleanlab": "off", "n": 2.0})

    def test_a_dead_letter_can_be_replayed(self, left: str) -> None:
        with open_store(left) as store:
            assert [letter.kind for letter in store.dead_letters()] == ["row"]
            assert store.replay_dead_letters().replayed == 1
            row = store.get(DEAD)
            assert row is not None and row.axes["fold"] == 13

    def test_a_row_that_nobody_could_read_becomes_a_dead_letter(self, left: str) -> None:
        asking(left)(f"UPDATE finetune_results SET metrics = '{{' WHERE run_key = '{key(3)}'")
        with open_store(left) as store:
            assert set(store.find([key(3), key(4)])) == {key(4)}
            letters = [letter for letter in store.dead_letters() if key(3) in letter.reason]
            assert [json.loads(letter.content)["row"]["metrics"] for letter in letters] == ["{"]

    def test_versions_1_to_3_are_brought_up_to_date_step_by_step(self, left: str) -> None:
        ask = asking(left)
        for version in (3, 2, 1):
            make_older(ask, version, server=not left.startswith("sqlite"))
        with open_store(left) as store:
            assert {row.run_id for row in store.rows() if row.run_key not in {key(1), *IN_OUTBOX}} == {None}
            assert len(store.keys()) == len(self.shown("finetune_results")) + len(IN_OUTBOX)
            assert [*store.dead_letters(), *store.incidents(), *store.config_history()] == []
            assert store.mark_failed([key(1)], "wrong prices") == 1
        assert ask("SELECT max(version) FROM scalable_schema") == [(store_versions.VERSION,)]

    def test_version_5_gets_a_ledger_and_keeps_everything(self, left: str) -> None:
        with open_store(left) as store:
            store.set_config({"a": 1}, factor="a", variant=1, reason="it won", expect_version=1)
            before = (list(store.rows()), store.runs(), store.config_history(), store.dead_letters())
        ask = asking(left)
        ask("DROP TABLE scalable_ledger")
        ask("DELETE FROM scalable_schema")
        ask("INSERT INTO scalable_schema VALUES (5)")
        with open_store(left) as store:
            assert (list(store.rows()), store.runs(), store.config_history(), store.dead_letters()) == before
            assert store.ledger() == []
            entry = store.record_decision(a_decision())
            assert (entry.number, entry.looks) == (1, 1)
        with open_store(left) as store:
            assert store.ledger() == [entry]
        assert ask("SELECT version FROM scalable_schema ORDER BY 1") == [(5,), (store_versions.VERSION,)]


def make_older(ask: Ask, version: int, *, server: bool) -> None:
    """Turn tables of the next version into those of this one."""
    if version == 3:
        ask("DROP TABLE scalable_attempts")
        ask("ALTER TABLE finetune_results DROP COLUMN run_id")
        if server:
            for table in ("ftf_config", "ftf_config_history"):
                ask(f"ALTER TABLE {table} ALTER base_env TYPE text")
    elif version == 2:
        for name in ("ftf_config", "ftf_config_history", "scalable_incidents", "scalable_dead_letters"):
            ask(f"DROP TABLE {name}")
        ask("DROP TABLE scalable_leases")
        ask("DROP TABLE scalable_counters")
    else:
        ask("ALTER TABLE finetune_results DROP COLUMN marked")
    ask(f"UPDATE scalable_schema SET version = {version}")


class KilledUpgradeContract:
    """Tests of processes that open an old store at once, or are killed while they bring it up to date."""

    seen = ""

    @pytest.mark.parametrize("moment", MOMENTS)
    def test_a_process_killed_in_the_middle_leaves_the_old_version_and_the_next_one_completes_it(
        self, left: str, moment: str
    ) -> None:
        ask = asking(left)
        assert Child(die_while_upgrading, left, moment).last_words() in ([], ["nothing to copy"])
        assert ask("SELECT max(version) FROM scalable_schema") == [(4,)]
        assert len(ask("SELECT run_key FROM finetune_results")) == 25
        with open_store(left) as store:
            assert len(store.keys()) == 27 and len(store.runs()) == 3
        assert ask("SELECT max(version) FROM scalable_schema") == [(store_versions.VERSION,)]

    def test_processes_that_open_it_at_once_all_write_their_rows(self, left: str) -> None:
        children = [Child(put_some, left, name, 10) for name in range(4)]
        assert all(child.last_words() for child in children)
        with open_store(left) as store:
            assert len(store.keys()) == 27 + 40
        assert asking(left)("SELECT version FROM scalable_schema ORDER BY 1") == [(4,), (store_versions.VERSION,)]


def die_while_upgrading(mouth: Connection, url: str, moment: str) -> None:
    """Open a store and be killed at the moment."""

    def die(*_: Any, **__: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    really, calls = store_versions.moved, []

    def at_the_second_page(*arguments: Any) -> Any:
        calls.append(1)
        return die() if len(calls) > 1 else really(*arguments)

    match moment:
        case "before the copy":
            Sqlite.back_up = die  # type: ignore[method-assign]
        case "in the copy":
            os.fsync = die
        case "after the copy":
            store_versions.CHANGES[4] = die
        case "among the rows":
            store_versions.PAGE = 10
            store_versions.moved = at_the_second_page  # type: ignore[assignment]
        case "before the end":
            vars(store_versions)["create_views"] = die
    if not url.startswith("sqlite") and moment in ("before the copy", "in the copy"):
        mouth.send("nothing to copy")
        die()
    open_store(url)
