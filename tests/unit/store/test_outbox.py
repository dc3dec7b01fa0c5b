"""The outbox keeps what was acknowledged through torn ends, damaged lines and full disks, and never mixes processes."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalable.store import Damage, SweepRun
from scalable.store.outbox import Entry, Outbox, OutboxError, OutboxHeldError, Stored
from scalable.testing.store import a_failed_row, a_row
from tests.helpers.store.trouble import files_up_to

ROWS = [a_row("one"), a_failed_row("two ü", axes={"calibration": True}), a_row("three", metrics={"a": float("nan")})]
ENTRIES = [Entry.of(row, 5.0 + number) for number, row in enumerate(ROWS)]
LINES = [entry.to_line() for entry in ENTRIES]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.db-outbox-1.jsonl"


@pytest.fixture
def outbox(path: Path) -> Iterator[Outbox]:
    outbox = Outbox(path)
    yield outbox
    outbox.close()


def contents(path: Path) -> tuple[list[Stored], list[Damage]]:
    outbox = Outbox(path)
    found = list(outbox.read())
    outbox.waiting = len(found)
    outbox.close()
    return [each.record for each in found if isinstance(each, Entry)], [e for e in found if isinstance(e, Damage)]


def test_entries_come_back_in_their_order_with_their_times(outbox: Outbox) -> None:
    outbox.append(ENTRIES[:1])
    outbox.append(ENTRIES[1:])
    assert outbox.waiting == 3
    assert list(outbox.read()) == ENTRIES


def test_nothing_is_cut_off_after_writes_that_succeeded(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    cuts: list[int] = []
    monkeypatch.setattr(os, "ftruncate", lambda _, size: cuts.append(size))
    outbox.append(ENTRIES[:1])
    outbox.append(ENTRIES[1:])
    assert (cuts, list(outbox.read())) == ([], ENTRIES)


def test_sweeps_and_rows_share_an_outbox(outbox: Outbox) -> None:
    entries = [Entry.of(SweepRun(id="r", sweep="s", started=1.0), 2.0), ENTRIES[0]]
    outbox.append(entries)
    assert list(outbox.read()) == entries


def test_every_line_is_json_on_its_own() -> None:
    assert [json.loads(line)["row"]["run_key"] for line in LINES] == [row.run_key for row in ROWS]


def test_a_file_cut_anywhere_gives_the_whole_lines_before_the_cut(path: Path) -> None:
    whole = b"".join(LINES)
    for cut in range(0, len(whole) + 1, 7):
        path.write_bytes(whole[:cut])
        rows, damaged = contents(path)
        assert rows == ROWS[: whole[:cut].count(b"\n")]
        assert damaged == []


def test_rows_added_after_a_torn_end_start_on_a_line_of_their_own(path: Path) -> None:
    path.write_bytes(LINES[0] + LINES[1][:40] + b"\0" * 5000)
    outbox = Outbox(path)
    assert outbox.waiting == 1
    outbox.append(ENTRIES[2:])
    assert list(outbox.read()) == [ENTRIES[0], ENTRIES[2]]
    outbox.close()
    assert path.read_bytes() == LINES[0] + LINES[2]


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, len(LINES[1]) - 2), value=st.integers(0, 255))
def test_a_changed_byte_in_a_line_is_reported_and_the_other_lines_are_kept(path: Path, place: int, value: int) -> None:
    broken = LINES[1][:place] + bytes([value]) + LINES[1][place + 1 :]
    path.write_bytes(LINES[0] + broken + LINES[2])
    rows, damaged = contents(path)
    if broken == LINES[1]:
        assert (rows, damaged) == (ROWS, [])
        return
    assert rows == [ROWS[0], ROWS[2]]
    assert {each.line for each in damaged} <= {2, 3}
    assert damaged
    assert str(path) in str(damaged[0])


def test_a_line_of_another_version_is_reported_as_such(path: Path) -> None:
    bodies = [b'"at":1.0,"lease":{"a":1}}', b'"at":1.0,"row":{"run_key":"x","unheard":1,"run_status":"finished"}}']
    path.write_bytes(b"".join(b'{"sum":"%08x",%s\n' % (crc32(body), body) for body in bodies))
    rows, damaged = contents(path)
    assert rows == []
    assert all("written by another version of scalable" in each.reason for each in damaged)
    assert len(damaged) == 2


def test_an_emptied_outbox_is_empty_and_can_be_used_again(outbox: Outbox) -> None:
    outbox.append(ENTRIES)
    outbox.clear()
    assert (outbox.waiting, list(outbox.read())) == (0, [])
    outbox.append(ENTRIES[1:2])
    assert list(outbox.read()) == ENTRIES[1:2]


def test_a_closed_outbox_leaves_a_file_only_if_rows_are_in_it(path: Path) -> None:
    Outbox(path).close()
    assert not path.exists()
    outbox = Outbox(path)
    outbox.append(ENTRIES)
    outbox.close()
    assert contents(path) == (ROWS, [])


def test_an_outbox_has_one_holder(outbox: Outbox, path: Path) -> None:
    with pytest.raises(OutboxHeldError, match="used by another process"):
        Outbox(path)


def test_a_new_outbox_is_not_lost_to_those_who_look_for_left_ones(tmp_path: Path) -> None:
    database = tmp_path / "results.db"
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            for path in Outbox.beside(database):
                with suppress(OutboxHeldError):
                    Outbox(path).close()

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(120):
            outbox = Outbox.new(database)
            assert outbox.path.stat().st_nlink == 1
            outbox.close()
    finally:
        ended.set()
        for looker in lookers:
            looker.join(60)


def test_outboxes_of_one_database_are_found_and_others_are_not(tmp_path: Path) -> None:
    database = tmp_path / "odd [name]*.db"
    ours, theirs = Outbox.new(database), Outbox.new(tmp_path / "odd n.db")
    assert Outbox.beside(database) == [ours.path]
    ours.close()
    theirs.close()


def test_an_outbox_that_cannot_be_made_says_where_and_why(tmp_path: Path) -> None:
    with pytest.raises(OutboxError, match=f"outbox {tmp_path}/gone/.* cannot be opened: No such file or directory"):
        Outbox.new(tmp_path / "gone" / "results.db")
    with pytest.raises(OutboxError, match="cannot be opened: Is a directory"):
        Outbox(tmp_path)


def test_a_file_that_may_not_grow_is_reported_and_leaves_the_outbox_as_it_was(outbox: Outbox) -> None:
    outbox.append(ENTRIES[:1])
    with files_up_to(len(LINES[0]) + 50), pytest.raises(OutboxError, match="cannot be written: File too large"):
        outbox.append(ENTRIES[1:])
    assert outbox.waiting == 1
    assert outbox.path.read_bytes() == LINES[0]
    assert list(outbox.read()) == ENTRIES[:1]
    outbox.append(ENTRIES[2:])
    assert list(outbox.read()) == [ENTRIES[0], ENTRIES[2]]


def test_what_a_failed_disk_left_is_cut_before_the_next_entry(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as disk, pytest.raises(OutboxError, match="cannot be written: Input/output error"):
        disk.setattr(os, "fsync", fail)
        disk.setattr(os, "ftruncate", fail)
        outbox.append(ENTRIES)
    assert outbox.path.read_bytes() == b"".join(LINES)
    assert list(outbox.read()) == []
    outbox.append(ENTRIES[:1])
    assert outbox.path.read_bytes() == LINES[0]
