"""While the database cannot be written, rows wait in the outbox, the caller is told, and they follow later."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from scalable.store import Fate, SweepRun, open_store
from scalable.store.outbox import Entry, Outbox
from scalable.testing.store import a_row, key
from tests.helpers.store.trouble import another_writer, no_more_pages
from tests.helpers.store.unavailable import NEVER_S, path, url

__all__ = ["path", "url"]


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
        until = time.monotonic() + 60
        while store.waiting and time.monotonic() < until:
            time.sleep(0.01)
        assert store.keys() == {key("row")}


def test_more_rows_than_fit_one_group_wait_and_follow(path: Path, url: str) -> None:
    with open_store(url, patience_s=0.01, ask_again_s=NEVER_S) as store:
        with another_writer(path):
            receipts = [store.submit([a_row(number)]) for number in range(2500)]
            assert {receipt.result(timeout=60).fate for receipt in receipts} == {Fate.KEPT}
            assert store.waiting == 2500
        assert store.replay().fate is Fate.COMMITTED
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
    until = time.monotonic() + 60
    while store.waiting and time.monotonic() < until:
        time.sleep(0.01)
    assert store.keys() == {key("left")}
    store.close()


def test_a_full_database_keeps_rows_in_the_outbox_until_there_is_space(path: Path, url: str) -> None:
    with no_more_pages(), open_store(url, ask_again_s=NEVER_S) as store:
        receipt = store.put([a_row(number) for number in range(500)])
        assert receipt.fate is Fate.KEPT
        assert "database or disk is full; free some space" in receipt.reason
    with open_store(url) as store:
        assert len(store.keys()) == 500
