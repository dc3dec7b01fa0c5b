"""While the database cannot be written, rows wait in the outbox, the caller is told, and they follow later."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from scalable.store import Fate, StoreError, open_store
from scalable.store.outbox import Entry, Outbox
from scalable.testing.store import a_row, key
from tests.helpers.store.children import keep_in_the_outbox
from tests.helpers.store.trouble import Child, another_writer, failures_counted, files_up_to
from tests.helpers.store.unavailable import NEVER_S, path, url

__all__ = ["path", "url"]


def test_a_write_is_tried_three_times_then_kept_and_the_caller_is_told_why(path: Path, url: str) -> None:
    with open_store(url, patience_s=0.01, ask_again_s=NEVER_S) as store:
        with another_writer(path), failures_counted() as failures:
            receipt = store.put([a_row("one"), a_row("two")])
        assert failures == ["database is locked"] * 3
        assert (receipt.fate, receipt.rows, receipt.safe) == (Fate.KEPT, 2, True)
        assert receipt.reason == f"store {url} is locked by another writer; end that process, or wait for it"
        assert (store.waiting, store.keys()) == (2, set())


def test_nothing_to_write_needs_no_database(path: Path, url: str) -> None:
    with open_store(url, patience_s=0.01) as store, another_writer(path):
        assert store.put([]).fate is store.replay().fate is Fate.COMMITTED


def test_a_writer_that_ends_in_time_is_waited_for(path: Path, url: str) -> None:
    with open_store(url, patience_s=30) as store:
        with another_writer(path):
            receipt = store.submit([a_row()])
            time.sleep(0.2)
            assert not receipt.done()
        assert receipt.result(timeout=60).fate is Fate.COMMITTED


def test_rows_of_a_process_killed_while_the_database_was_locked_are_recovered(path: Path, url: str) -> None:
    with another_writer(path):
        child = Child(keep_in_the_outbox, url)
        assert [child.hear().fate for _ in range(3)] == [Fate.KEPT] * 3
        with open_store(url) as store:
            assert store.recovery.rows == 0, "the child lives and holds its outbox"
        child.kill()
        child.last_words()
    with open_store(url) as store:
        assert store.recovery.rows == 3
        assert store.keys() == {key(number) for number in range(3)}


def test_rows_that_neither_disk_nor_database_take_are_given_back(path: Path, url: str) -> None:
    with open_store(url, patience_s=0.01, ask_again_s=NEVER_S) as store:
        store.put([a_row("before")])
        with files_up_to(100):
            receipt = store.put([a_row("one")])
        assert (receipt.fate, receipt.safe) == (Fate.REFUSED, False)
        assert "the disk reports an error" in receipt.reason
        assert "cannot be written: File too large" in receipt.reason
        assert (store.waiting, store.keys()) == (0, {key("before")})
        assert store.put([a_row("one")]).fate is Fate.COMMITTED


def test_rows_are_stored_when_only_the_outbox_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 240)  # with the outbox's ending the name is too long for a file
    with open_store(f"sqlite:///{path}", patience_s=0.01) as store:
        assert store.put([a_row("one")]).fate is Fate.COMMITTED
        with another_writer(path):
            receipt = store.put([a_row("two")])
        assert receipt.fate is Fate.REFUSED
        assert "is locked by another writer" in receipt.reason
        assert "cannot be opened: File name too long" in receipt.reason
        assert store.keys() == {key("one")}


def test_a_damaged_line_left_behind_is_reported_kept_for_people_and_stops_nothing(
    path: Path, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    left = Outbox.new(path)
    left.append([Entry.of(a_row(number), 1.0) for number in range(3)])
    left.close()
    lines = left.path.read_bytes().splitlines(keepends=True)
    left.path.write_bytes(lines[0] + lines[1].replace(b"calibration", b"celebration", 1) + lines[2])
    with caplog.at_level(logging.WARNING), open_store(url) as store:
        assert store.keys() == {key(0), key(2)}
        assert store.recovery.rows == 2
        [damage] = store.recovery.damaged
        assert (damage.path, damage.line, damage.reason) == (left.path, 2, "the checksum does not match")
        [letter] = store.dead_letters()
        assert (letter.kind, letter.content) == ("line", lines[1].decode().rstrip().replace("calib", "celeb", 1))
        assert letter.reason == f"{left.path}:2: the checksum does not match"
    assert f"{left.path}:2: the checksum does not match; see  scalable dlq list" in caplog.text
    assert Outbox.beside(path) == []
    with open_store(url) as store:
        assert store.recovery.damaged == ()


def test_an_outbox_that_may_not_be_read_is_named_and_stops_nothing(
    path: Path, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    unreadable = path.with_name("results.db-outbox-0.jsonl")
    unreadable.mkdir()
    with caplog.at_level(logging.WARNING), open_store(url) as store:
        assert store.put([a_row()]).fate is Fate.COMMITTED
    assert f"rows of an earlier process stay where they are: outbox {unreadable} cannot be opened" in caplog.text


def test_a_database_that_vanished_is_told_and_does_not_hang(path: Path, url: str) -> None:
    with open_store(url, patience_s=0.01, ask_again_s=NEVER_S) as store:
        connection_less = path.rename(path.with_name("moved.db"))
        receipt = store.put([a_row()])
        assert receipt.fate in (Fate.COMMITTED, Fate.KEPT)
        connection_less.rename(path)
    with open_store(url) as store:
        assert store.keys() == {key("row")}


def test_what_the_store_says_holds_no_values_of_rows(path: Path, url: str) -> None:
    with open_store(url, patience_s=0.01, ask_again_s=NEVER_S) as store, another_writer(path):
        assert "hush" not in store.put([a_row(value="hush")]).reason
    with pytest.raises(StoreError) as refused, open_store(url) as store:
        path.write_bytes(b"hush" * 5000)
        list(store.rows())
    assert "hush" not in str(refused.value)
