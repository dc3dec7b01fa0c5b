"""Journals are read back whole, whatever happened to them, and while they grow."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalable.observe import read
from scalable.observe.journal import ending, parsed

GOOD = b'{"t": 1.5, "kind": "task"}'


def journal(folder: Path, *lines: bytes) -> Path:
    path = folder / "journal.jsonl"
    path.write_bytes(b"".join(lines))
    return path


def test_a_torn_last_line_is_left_out_and_said(tmp_path: Path) -> None:
    records = read(journal(tmp_path, GOOD, b"\n", GOOD[:-3]))
    assert len(list(records)) == 1
    assert records.torn
    assert records.damaged == 0


def test_a_last_line_that_lacks_only_its_end_counts(tmp_path: Path) -> None:
    records = read(journal(tmp_path, GOOD, b"\n", GOOD))
    assert len(list(records)) == 2
    assert not records.torn


@given(st.integers(0, 3 * (len(GOOD) + 1)))
def test_a_journal_cut_anywhere_gives_every_whole_record(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = journal(tmp_path_factory.mktemp("cut"), ((GOOD + b"\n") * 3)[:cut])
    records = read(path)
    assert len(list(records)) == (cut + 1) // (len(GOOD) + 1)
    assert records.damaged == 0


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense",
        b"[1, 2]",
        b'"text"',
        b"{}",
        b'{"t": 1}',
        b'{"kind": "task"}',
        b'{"t": "now", "kind": "task"}',
        b'{"t": true, "kind": "task"}',
        b'{"t": NaN, "kind": "task"}',
        b'{"t": 1e400, "kind": "task"}',
        b'{"t": 1, "kind": 5}',
        b'{"t": 1, "kind": "x", "n": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b"\x00" * 100,
    ],
    ids=lambda line: line[:20].decode(),
)
def test_a_line_that_is_no_record_is_counted_and_the_others_are_read(line: bytes, tmp_path: Path) -> None:
    records = read(journal(tmp_path, GOOD, b"\n", line, b"\n", GOOD, b"\n"))
    assert len(list(records)) == 2
    assert records.damaged == 1


def test_bytes_that_are_no_text_do_not_cost_the_record(tmp_path: Path) -> None:
    (record,) = read(journal(tmp_path, b'{"t": 1, "kind": "task", "name": "\xff\xfe"}\n'))
    assert record["name"] == "��"


def test_empty_lines_are_nothing(tmp_path: Path) -> None:
    records = read(journal(tmp_path, b"\n\n", GOOD, b"\r\n\n"))
    assert len(list(records)) == 1
    assert records.damaged == 0


def test_a_journal_that_does_not_exist_has_no_records(tmp_path: Path) -> None:
    assert list(read(tmp_path / "none")) == []


@given(st.binary())
def test_any_bytes_can_be_read(line: bytes) -> None:
    record = parsed(line)
    assert record is None or {"t", "kind"} <= set(record)


def test_new_gives_only_what_was_added_and_a_line_once_it_is_whole(tmp_path: Path) -> None:
    path = journal(tmp_path, GOOD, b"\n", GOOD[:5])
    records = read(path)
    assert len(list(records.new())) == 1
    assert records.torn
    with path.open("ab") as file:
        file.write(GOOD[5:])
    assert list(records.new()) == []
    with path.open("ab") as file:
        file.write(b"\n" + GOOD + b"\n")
    assert len(list(records.new())) == 2
    assert not records.torn


def test_whether_a_run_ended_shows_at_the_end_of_a_long_journal(tmp_path: Path) -> None:
    path = journal(tmp_path, (GOOD + b"\n") * 10_000)
    assert ending(path) is None
    with path.open("ab") as file:
        file.write(b'{"t": 2, "kind": "ended", "status": "ok"}\n')
    assert ending(path) is not None
    assert ending(tmp_path / "none") is None
