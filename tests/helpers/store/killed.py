"""A writer that is killed at any moment: every row it was told is safe is there, once, and unharmed."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from pathlib import Path

import pytest

from scalable.store import Row, open_store
from scalable.store.outbox import Entry
from tests.helpers.store.children import write_for_ever
from tests.helpers.store.trouble import Child

KILLS = int(os.environ.get("SCALABLE_KILLS", "16"))


class KilledContract:
    """A test of killed writers for any kind of database; the fixture ``url`` names an empty one."""

    def test_a_writer_killed_again_and_again_loses_nothing_it_was_told_is_safe(
        self, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        random_numbers = random.Random(20)
        promised: dict[str, list[Row]] = {}
        recovered = 0
        for seed in range(KILLS):
            child = Child(write_for_ever, url, seed)
            assert child.hear() == "ready"
            first = [child.hear()] if seed % 2 else []  # on a busy machine it comes late
            time.sleep(random_numbers.uniform(0, 0.08))
            child.kill()
            news: dict[str, list[Row]] = {}
            for said in (*first, *child.last_words()):
                for values in said:
                    row = Row.from_dict(values)
                    news.setdefault(row.run_key, []).append(row)
            promised |= news  # every child has keys of its own
            if random_numbers.random() < 0.5:  # or the next child recovers what this one left
                recovered += check(url, news)
        check(url, promised)
        assert len(promised) >= KILLS // 2
        assert recovered, "no kill came between outbox and database"
        assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["results.db"] * url.startswith(
            "sqlite"
        )


def check(url: str, promised: dict[str, list[Row]]) -> int:
    """Of every key that was acknowledged there is one row, at least as good as the best acknowledged."""
    with open_store(url) as store:
        assert store.recovery.damaged == ()
        for run_key, rows in promised.items():
            found = store.get(run_key)
            assert found
            assert rank(found) >= max(map(rank, rows))
        recovered = store.recovery.rows
    if url.startswith("sqlite"):
        check_file(url)
    return recovered


def check_file(url: str) -> None:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def rank(row: Row) -> tuple[float, int, bool, str]:
    return Entry.of(row, 0.0).rank
