"""Processes that write to a file are killed at any moment: every row they were told is safe is there, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalable.store import Fate, open_store
from scalable.testing.store import a_row, key
from tests.helpers.store.children import die_at, keep_in_the_outbox
from tests.helpers.store.killed import KilledContract
from tests.helpers.store.trouble import Child, another_writer

pytestmark = pytest.mark.journey


class TestSqlite(KilledContract):
    """The file that ``url`` names."""


@pytest.mark.parametrize(
    ("moment", "there"),
    [
        ("in the middle of a line", 1),
        ("before the outbox is safe", 3),
        ("before the database is asked", 3),
        ("before the outbox is emptied", 3),
        ("after the receipt", 3),
    ],
)
def test_rows_are_whole_or_absent_whenever_the_writer_dies(tmp_path: Path, moment: str, there: int) -> None:
    url = f"sqlite:///{tmp_path}/results.db"
    open_store(url).close()
    said = Child(die_at, url, moment).last_words()
    assert said == (["acknowledged"] if moment == "after the receipt" else [])
    with open_store(url) as store:
        assert store.recovery.damaged == ()
        assert set(store.rows()) == {a_row(number) for number in range(there)}
        assert store.put([a_row(number) for number in range(3)]).safe
        assert store.keys() == {key(number) for number in range(3)}
    assert [path.name for path in tmp_path.iterdir()] == ["results.db"]


def test_rows_of_a_process_killed_while_the_database_was_locked_are_recovered(tmp_path: Path, url: str) -> None:
    open_store(url).close()
    with another_writer(tmp_path / "results.db"):
        child = Child(keep_in_the_outbox, url)
        assert [child.hear().fate for _ in range(3)] == [Fate.KEPT] * 3
        with open_store(url) as store:
            assert store.recovery.rows == 0, "the child lives and holds its outbox"
        child.kill()
        child.last_words()
    with open_store(url) as store:
        assert store.recovery.rows == 3
        assert store.keys() == {key(number) for number in range(3)}
