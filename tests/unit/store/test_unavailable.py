"""While the database cannot be written, rows wait in the outbox, the caller is told, and they follow later."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from scalable.store import Fate, StoreError, SweepRun, open_store
from scalable.store.database import Database
from scalable.store.outbox import Entry, Outbox, OutboxError, spares
from scalable.testing.store import a_row, key
from tests.helpers.store.trouble import another_writer, failures_counted, files_up_to, no_more_pages
from tests.helpers.waiting import until

NEVER_S = 600.0


@pytest.fixture
def path(tmp_path: Path, url: str) -> Path:
    """The file of a store that was opened before."""
    open_store(url).close()
    return tmp_path / "results.db"


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


def test_a_new_file_that_another_process_is_about_to_fill_is_waited_for(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as filling:
        filling.enter_context(another_writer(tmp_path / "results.db"))
        monkeypatch.setattr(time, "sleep", lambda _: filling.close())
        with open_store(url, patience_s=30) as store:
            assert store.put([a_row()]).fate is Fate.COMMITTED


def test_a_new_file_that_another_process_never_lets_go_of_is_refused(tmp_path: Path, url: str) -> None:
    with another_writer(tmp_path / "results.db"), pytest.raises(StoreError, match="is locked by another writer"):
        open_store(url, patience_s=0.02)


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


def test_rows_go_to_an_outbox_on_another_disk_when_their_own_is_full_and_are_found_there(
    path: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCALABLE_CACHE_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setattr("scalable.store.writer.same_device", lambda folder, other: "elsewhere" not in str(folder))
    append = Outbox.append

    def full(self: Outbox, entries: Sequence[Entry]) -> None:
        if self.path.parent == path.parent:
            raise OutboxError(f"outbox {self.path} cannot be written: No space left on device")
        append(self, entries)

    monkeypatch.setattr(Outbox, "append", full)
    store = open_store(url, patience_s=0.01, ask_again_s=NEVER_S)
    assert store.put([a_row("before")]).fate is Fate.COMMITTED
    with another_writer(path):
        receipt = store.put([a_row("one")])
        assert (receipt.fate, receipt.safe, store.waiting) == (Fate.KEPT, True, 1)
        assert Path(receipt.kept_in).is_relative_to(tmp_path / "elsewhere") and Path(receipt.kept_in).exists()
        store.close()
    with open_store(url) as store:
        assert store.recovery.rows == 1 and store.keys() == {key("before"), key("one")}
    assert not Path(receipt.kept_in).exists()


def test_a_folder_that_others_can_write_to_is_no_place_for_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCALABLE_CACHE_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert spares(tmp_path / "results.db") == [] and not list(tmp_path.iterdir()), "who only looks makes nothing"
    [spare] = spares(tmp_path / "results.db", make=True)
    assert spares(tmp_path / "results.db") == [spare] and spare.parent.parent.stat().st_mode & 0o077 == 0
    spare.parent.parent.chmod(0o777)
    assert spares(tmp_path / "results.db", make=True) == []


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
    assert f"{left.path}:2: the checksum does not match; see  scalable admin dlq list" in caplog.text
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


def test_a_mark_that_a_locked_database_does_not_take_is_kept_and_follows(path: Path, url: str) -> None:
    with open_store(url, patience_s=0.01, ask_again_s=NEVER_S) as store:
        store.put([a_row()])
        with another_writer(path):
            assert store.mark_failed([key("row")], "wrong prices") == 1
            store.put([a_row()])
            assert [row.finished for row in store.rows()] == [True]
        assert store.replay().fate is Fate.COMMITTED
        assert [(row.finished, row.error) for row in store.rows()] == [(False, "wrong prices")]


def test_kept_rows_follow_with_the_next_ones_and_nothing_is_there_twice(path: Path, url: str) -> None:
    with open_store(url, patience_s=0.01, ask_again_s=NEVER_S) as store:
        with another_writer(path):
            store.put([a_row("one", attempt=2)])
            store.put_run(SweepRun(id="run-1", sweep="calibration", started=1.0))
        assert store.put([a_row("one", attempt=1), a_row("two")]).fate is Fate.COMMITTED
        assert set(store.rows()) == {a_row("one", attempt=2), a_row("two")}
        assert [run.id for run in store.runs()] == ["run-1"]
        assert store.waiting == 0


def test_kept_rows_can_be_replayed_on_request(path: Path, url: str) -> None:
    with open_store(url, patience_s=0.01, ask_again_s=NEVER_S) as store:
        with another_writer(path):
            store.put([a_row()])
            assert store.replay().fate is Fate.KEPT
        assert store.replay().fate is Fate.COMMITTED
        assert store.keys() == {key("row")}


def test_the_database_is_asked_again_without_anybody_asking_for_it(path: Path, url: str) -> None:
    with open_store(url, patience_s=0.01, ask_again_s=0.05) as store:
        with another_writer(path):
            assert store.put([a_row()]).fate is Fate.KEPT
        assert until(lambda: not store.waiting)
        assert store.keys() == {key("row")}


def test_more_rows_than_fit_one_group_wait_and_follow(path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    write = Database.write

    def counted(database: Database, entries: Sequence[Entry]) -> None:
        sizes.append(len(entries))
        write(database, entries)

    with open_store(url, patience_s=0.01, ask_again_s=NEVER_S) as store:
        with another_writer(path):
            receipts = [store.submit([a_row(number)]) for number in range(2500)]
            assert {receipt.result(timeout=60).fate for receipt in receipts} == {Fate.KEPT}
            assert store.waiting == 2500
        monkeypatch.setattr(Database, "write", counted)
        assert store.replay().fate is Fate.COMMITTED
        assert sizes == [1000, 1000, 500], "a larger transaction would hold up other writers"
        assert len(store.keys()) == 2500


def test_rows_kept_at_the_end_are_in_the_database_after_the_next_opening(
    path: Path, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with another_writer(path):
        with caplog.at_level(logging.WARNING), open_store(url, patience_s=0.01, ask_again_s=NEVER_S) as store:
            store.put([a_row("one"), a_row("two")])
        assert f"2 unwritten rows in {path}-outbox-*: store {url} is locked by another writer" in caplog.text
        assert len(Outbox.beside(path)) == 1
    with open_store(url) as store:
        assert (store.recovery.rows, store.recovery.reason) == (2, "")
        assert store.keys() == {key("one"), key("two")}
        assert Outbox.beside(path) == []


def test_an_opening_that_finds_the_database_locked_goes_on_and_replays_later(path: Path, url: str) -> None:
    left = Outbox.new(path)
    left.append([Entry.of(a_row("left"), 1.0)])
    left.close()
    with another_writer(path):
        store = open_store(url, patience_s=0.01, ask_again_s=NEVER_S)
        assert store.recovery.rows == store.waiting == 1
        assert "is locked by another writer" in store.recovery.reason
        assert store.put([a_row("new")]).fate is Fate.KEPT
    assert store.replay().fate is Fate.COMMITTED
    assert store.keys() == {key("left"), key("new")}
    store.close()
    assert Outbox.beside(path) == []


def test_rows_left_for_a_locked_database_follow_even_if_nothing_more_is_put(path: Path, url: str) -> None:
    left = Outbox.new(path)
    left.append([Entry.of(a_row("left"), 1.0)])
    left.close()
    with another_writer(path):
        store = open_store(url, patience_s=0.01, ask_again_s=0.05)
        assert store.waiting == 1
    assert until(lambda: not store.waiting)
    assert store.keys() == {key("left")}
    store.close()


def test_a_full_database_keeps_rows_in_the_outbox_until_there_is_space(path: Path, url: str) -> None:
    with no_more_pages(), open_store(url, ask_again_s=NEVER_S) as store:
        receipt = store.put([a_row(number) for number in range(500)])
        assert receipt.fate is Fate.KEPT
        assert "database or disk is full; free some space" in receipt.reason
    with open_store(url) as store:
        assert len(store.keys()) == 500
