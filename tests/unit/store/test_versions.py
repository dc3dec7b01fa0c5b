"""Files with tables of earlier versions keep everything when they are brought up to date, and are copied before."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from scalable.store import StoreError, open_store
from scalable.testing.store import a_row
from tests.helpers.store.earlier import UpgradeContract, a_file, asking


@pytest.fixture
def left(tmp_path: Path) -> str:
    return a_file(tmp_path / "results.db")


class TestSqlite(UpgradeContract):
    """The file that ``left`` names."""

    seen = "file.json"


def test_the_file_as_it_was_is_beside_it_and_what_is_logged_names_it(
    left: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "results.db").chmod(0o640)
    open_store(left).close()
    copy = tmp_path / "results.db.version-4"
    assert str(copy) in caplog.text
    assert copy.stat().st_mode & 0o777 == 0o640
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT count(*), max(fold) FROM finetune_results").fetchall() == [(25, 4)]
    caplog.clear()
    open_store(left).close()
    assert caplog.text == ""
    assert [path.name for path in tmp_path.iterdir() if "version" in path.name] == [copy.name]


def test_a_copy_that_is_there_already_is_not_overwritten(left: str, tmp_path: Path) -> None:
    (tmp_path / "results.db.version-4").write_text("mine", encoding="ascii")
    open_store(left).close()
    assert (tmp_path / "results.db.version-4").read_text(encoding="ascii") == "mine"
    assert (tmp_path / "results.db.version-4.2").stat().st_size > 10_000


def test_a_file_that_cannot_be_copied_stays_as_it_is(
    left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("scalable.store.dialects.shutil.copymode", full)
    with pytest.raises(StoreError, match="No space left on device"):
        open_store(left)
    assert asking(left)("SELECT max(version) FROM scalable_schema") == [(4,)]
    assert not [path.name for path in tmp_path.iterdir() if "version" in path.name]


def test_a_view_that_somebody_made_follows_the_rows(left: str) -> None:
    ask = asking(left)
    ask("CREATE VIEW mine AS SELECT asset, count(*) AS n FROM finetune_results GROUP BY asset")
    with open_store(left) as store:
        store.put([a_row(axes={"asset": "new"})])
        assert ("new", 1) in ask("SELECT asset, n FROM mine")
