"""Opening a store in a file: which URLs work, how it is set up, and what is said when it cannot be."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from scalable.errors import UsageError
from scalable.store import Row, StoreError, StoreUrlError, SweepRun, open_store
from scalable.store.dialects import cannot_change
from scalable.testing.store import a_row, key
from scalable.testing.store_ledger import a_decision
from tests.helpers.store.trouble import another_writer, no_more_pages


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:///results.db", "results.db"),
        ("sqlite:///a/b c/ü 漢/%20#.db", "a/b c/ü 漢/%20#.db"),
        ("sqlite+pysqlite:///x", "x"),
        ("SQLite:///x", "x"),
        ("sqlite:///./a/../b.db", "b.db"),
    ],
)
def test_a_file_and_its_folders_are_made_where_the_url_says(here: Path, url: str, file: str) -> None:
    with open_store(url) as store:
        store.put([a_row()])
    assert (here / file).is_file()
    assert [path for path in here.rglob("*") if path.is_file()] == [here / file]


def test_an_absolute_path_has_four_slashes(here: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    open_store(f"sqlite:///{elsewhere}/results.db").close()
    assert (elsewhere / "results.db").is_file()
    assert not list(here.iterdir())


def test_a_tilde_is_the_home_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here / "home"))
    open_store("sqlite:///~/results.db").close()
    assert (here / "home/results.db").is_file()


def test_a_store_stays_where_it_was_opened_when_the_folder_changes(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store("sqlite:///results.db") as store:
        (here / "other").mkdir()
        monkeypatch.chdir(here / "other")
        store.put([a_row()])
        assert store.keys() == {key("row")}
    assert not list((here / "other").iterdir())


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("results.db", "'results.db' is not a store's URL; write sqlite:///results.db"),
        ("/data/results.db", "write sqlite:////data/results.db"),
        ("", "write sqlite:///results.db"),
        ("sqlite://results.db", "has 2 slashes after the colon; write sqlite:///results.db"),
        ("sqlite:results.db", "has 0 slashes"),
        ("sqlite://", "name a file, e.g. sqlite:///.scalable/results.db"),
        ("sqlite:///:memory:", "would be lost with the process"),
        ("sqlite:///a.db?mode=ro", "what follows a ? is not supported"),
        ("sqlite:///.", "is a folder; name a file in it"),
        ("sqlite:///" + "x" * 300, "cannot be a file: "),
        ("sqlite:///a\0b", "cannot be a file: "),
        ("sqlite:///~nobody-of-that-name/x", "cannot be a file: "),
        ("mysql://host/db", "mysql is not supported; write sqlite:///.scalable/results.db or postgresql://user@host/"),
        ("postgresql://host", "names no database; write postgresql://user@host/database"),
        ("postgresql:host/db", "needs two slashes after the colon"),
        (
            "postgresql://u:p@x@host/db",
            "has an @ or # in an unexpected place; write @ : / ? # and % of a password as %40",
        ),
        ("postgresql://host:many/db", "has a host or port that cannot be read"),
        ("postgresql://host/db?a=1&a=2", "has an option twice; write it once"),
        ("postgresql://host/d\0b", "has a character 0"),
        (5, "is a text, not a int"),
    ],
)
def test_a_url_that_cannot_work_is_refused_with_one_that_does(here: Path, url: str, said: str) -> None:
    with pytest.raises(StoreUrlError) as refused:
        open_store(url)
    assert said in str(refused.value)
    assert isinstance(refused.value, UsageError)
    assert not list(here.iterdir())


@pytest.mark.parametrize(
    "url",
    [
        "mysql://user:hush@host/db",
        "postgresql://user:hu@hush/sh@host:5432/db",
        "postgresql://user:hush@host/db/hush?password=hush",
        "postgresql://user:hu#hush@host/db",
        "postgresql://user:hush?hush@host/db",
        "postgresql://user:hush",
        "postgresql://user:hush@host:hush/db",
        "mysql:user:hush@host",
        "mysql://user:hush",
        "sqlite+pysqlcipher://:hush@/file.db",
        "sqlite:///file.db?key=hush",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    with pytest.raises(StoreUrlError) as refused:
        open_store(url)
    assert "hush" not in repr(refused.value)
    assert refused.value.__cause__ is None


def test_commits_are_durable_and_readers_are_not_held_up(tmp_path: Path) -> None:
    from scalable.store.database import Database
    from scalable.store.urls import location_of

    database = Database(location_of(f"sqlite:///{tmp_path}/results.db"), patience_s=2.5)
    with database.engine.connect() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        }
    database.close()
    assert found == {"journal_mode": "wal", "synchronous": 2, "busy_timeout": 2500, "foreign_keys": 1}


def test_the_tables_can_be_read_with_nothing_but_sqlite(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/results.db") as store:
        store.put([a_row(metrics={"sharpe": 1.5, "ratio": float("nan")}), a_row("number", axes={"calibration": 4})])
        store.put([Row(run_key=key("task"), name="clean", value=[1])])
    connection = sqlite3.connect(tmp_path / "results.db")
    statement = "SELECT variant, json_extract(metrics, '$.sharpe'), value FROM finetune_results ORDER BY run_key"
    assert set(connection.execute(statement)) == {("isotonic", 1.5, None), ("4", 1.25, None), (None, None, "[1]")}
    assert connection.execute("SELECT version FROM scalable_schema").fetchall() == [(6,)]
    assert connection.execute("SELECT count(*) FROM finetune_runs").fetchone() == (0,)
    connection.close()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"this is a letter, not a database " * 100, "is not a database; name another file"),
        (b"SQLite format 3\0" + b"\xff" * 5000, "store .* (is damaged|is not a database|cannot be used)"),
    ],
)
def test_a_file_that_is_no_database_is_named_and_left_alone(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "results.db").write_bytes(content)
    with pytest.raises(StoreError, match=said):
        open_store(f"sqlite:///{tmp_path}/results.db")
    assert (tmp_path / "results.db").read_bytes() == content


def test_a_database_damaged_inside_says_so_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with open_store(f"sqlite:///{path}") as store:
        store.put([a_row(number) for number in range(2000)])
    content = bytearray(path.read_bytes())
    sound = 30 * 4096  # the pages of tables that are empty come first
    content[sound:] = os.urandom(len(content) - sound)
    path.write_bytes(content)
    with (
        open_store(f"sqlite:///{path}") as store,
        pytest.raises(StoreError, match="is damaged; restore it from a copy"),
    ):
        list(store.rows())


def test_a_row_changed_by_hand_into_nonsense_is_named(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    for column, value in (("run_status", "perhaps"), ("metrics", "{"), ("attempt", 0)):
        with open_store(f"sqlite:///{path}") as store:
            store.put([a_row(column)])
            connection = sqlite3.connect(path)
            connection.execute(f"UPDATE scalable_rows SET {column} = ?", (value,))
            connection.commit()
            with pytest.raises(StoreError, match=r"cannot be read: |in the store is not JSON"):
                list(store.rows())
            connection.execute("DELETE FROM scalable_rows")
            connection.commit()
            connection.close()


def test_the_live_configuration_has_a_row_for_those_who_read_the_table_from_the_first_sweep_on(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/results.db") as store:
        store.put_run(SweepRun(id="1", sweep="s", started=1.0))
    connection = sqlite3.connect(tmp_path / "results.db")
    assert connection.execute("SELECT version, base_env FROM ftf_config").fetchall() == [(0, "{}")]
    connection.close()


def test_a_database_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/results.db"
    open_store(url).close()
    connection = sqlite3.connect(tmp_path / "results.db")
    connection.execute("INSERT INTO scalable_schema VALUES (7)")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="has tables of version 7, and this scalable knows version 6; update scalable"):
        open_store(url)


def test_a_file_in_a_folder_that_cannot_be_written_is_read_without_a_log_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/results.db"
    with open_store(url) as store:
        store.put([a_row()])
    monkeypatch.setattr("scalable.store.dialects.os.access", lambda *_: False)
    with open_store(url, patience_s=0.01) as store:
        assert store.keys() == {key("row")}
        with pytest.raises(StoreError, match="is read-only"):
            store.record_decision(a_decision())
        assert (store.ledger(), [each.name for each in tmp_path.iterdir()]) == ([], ["results.db"])


def test_the_log_of_a_file_that_cannot_be_written_is_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    path.touch()
    assert not cannot_change(path), "its folder can be written"
    path.with_name("results.db-wal").touch()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("scalable.store.dialects.os.access", lambda *_: False)
        assert not cannot_change(path)
        path.with_name("results.db-wal").unlink()
        assert cannot_change(path)
        assert not cannot_change(tmp_path / "new.db")


def test_a_table_of_somebody_else_is_not_taken_for_ours(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "results.db")
    connection.execute("CREATE TABLE finetune_results (id INTEGER)")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="has a table finetune_results that scalable did not make"):
        open_store(f"sqlite:///{tmp_path}/results.db")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"its folder cannot be made: (File exists|Not a directory)"):
        open_store(f"sqlite:///{tmp_path}/file/results.db")


def test_a_full_disk_at_the_first_opening_is_told_in_words(tmp_path: Path) -> None:
    with no_more_pages(), pytest.raises(StoreError, match="database or disk is full; free some space"):
        open_store(f"sqlite:///{tmp_path}/results.db")


def test_a_store_can_be_opened_and_read_while_another_writes(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/results.db"
    with open_store(url) as store:
        store.put([a_row()])
    with another_writer(tmp_path / "results.db"), open_store(url, patience_s=0.01) as store:
        assert store.keys() == {key("row")}


def test_a_new_file_that_another_holds_is_reported_as_locked(tmp_path: Path) -> None:
    with another_writer(tmp_path / "results.db"), pytest.raises(StoreError, match="is locked by another writer"):
        open_store(f"sqlite:///{tmp_path}/results.db", patience_s=0.01)
