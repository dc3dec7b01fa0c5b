"""Logs are read from their end, in portions: however long a log or a line of it is, little of it is in memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scalable.observe import logs
from scalable.observe.logs import BLOCK, CUT, LONGEST_LINE, LogReader, ending, shown
from scalable.observe.redact import Redactor


def test_of_a_line_without_end_only_so_much_is_read_as_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "w.log"
    with path.open("wb") as file:
        file.truncate(1 << 32)  # zeros, which take no room
    end = ending(path, 200, 3 * BLOCK)
    assert (end.begin, len(end.data), end.size) == ((1 << 32) - 3 * BLOCK, 3 * BLOCK, 1 << 32)


def test_a_log_whose_last_lines_are_too_long_gives_whole_lines_only_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "w.log").write_bytes(b"password=" + b"x" * 10 * BLOCK + b"\nlast\n")
    reader = LogReader(tmp_path, most_bytes=2 * BLOCK)
    assert reader.begin(5, last=True) == {"w": ["last"]} and reader.cut_off == {"w"}
    other = LogReader(tmp_path, most_bytes=2 * BLOCK)
    assert other.begin(1, last=True) == {"w": ["last"]} and other.cut_off == set()


def test_all_logs_together_take_no_more_than_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        (tmp_path / f"w{number}.log").write_bytes(b"line\n" * BLOCK)
    read: list[int] = []
    real = logs.ending

    def counted(path: Path, most_lines: int, most_bytes: int) -> logs.FileTail:
        end = real(path, most_lines, most_bytes)
        read.append(len(end.data))
        return end

    monkeypatch.setattr(logs, "ending", counted)
    LogReader(tmp_path, most_bytes=8 * BLOCK).begin(1_000_000)
    assert read == [2 * BLOCK] * 4


def test_what_is_added_is_read_in_portions_until_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "w.log"
    path.write_bytes(b"")
    reader = LogReader(tmp_path, most_bytes=BLOCK)
    assert reader.begin(5) == {"w": []}
    path.write_bytes(b"".join(b"%07d\n" % number for number in range(BLOCK // 4)) + b"end")
    portions = []
    while True:
        portions.append(reader.new(last=True).get("w", []))
        if not reader.behind:
            break
    assert len(portions) == 3
    assert [line for portion in portions for line in portion] == [*(f"{n:07d}" for n in range(BLOCK // 4)), "end"]


def test_a_line_that_grows_for_ever_is_given_out_once_and_the_next_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "w.log"
    path.write_bytes(b"")
    reader = LogReader(tmp_path)
    reader.begin(5)
    with path.open("ab", buffering=0) as file:
        file.write(b"a" * 2 * LONGEST_LINE)
        (line,) = reader.new()["w"]
        file.write(b"b" * LONGEST_LINE)
        assert reader.new() == {} and not reader.rest
        file.write(b"b\nnext\n")
        assert reader.new() == {"w": ["next"]}
    assert shown(line, Redactor()) == "a" * LONGEST_LINE + CUT


def test_a_secret_at_the_cut_is_hidden_whole() -> None:
    before = "x" * (LONGEST_LINE - 40)
    text = shown(f"{before} postgresql://user:{'s3cret' * 20}@host/db {'y' * 100}", Redactor())
    assert "s3cret" not in text and text.endswith(CUT)


def test_a_pipe_among_the_logs_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "w.log")
    reader = LogReader(tmp_path)
    assert reader.begin(5, last=True) == {"w": []} and reader.new(last=True) == {}
