"""What workers print becomes lines of a log: with times, without secrets, cut and capped."""

from __future__ import annotations

import re

import pytest

from scalable.observe.logs import CUT, LONGEST_LINE, TIME, without_time
from scalable.observe.redact import KNOWN
from scalable.worker.printing import LogLines, now

AT = "2026-01-02T03:04:05.678Z"


def test_each_line_has_its_time_as_soon_as_it_has_its_end() -> None:
    lines = LogLines()
    assert lines.feed(b"one\ntw", AT) == f"{AT} one\n".encode()
    assert lines.feed(b"o\n\n", AT) == f"{AT} two\n{AT} \n".encode()
    assert lines.end(AT) == b""


def test_a_line_without_an_end_is_written_at_the_end() -> None:
    lines = LogLines()
    assert lines.feed(b"last words", AT) == b""
    assert lines.end(AT) == f"{AT} last words\n".encode()


def test_the_time_is_one_that_logs_are_merged_by_and_taken_off_again() -> None:
    assert TIME.fullmatch(f"{now()} ")
    assert without_time(f"{now()} scalable worker: closed") == "scalable worker: closed"


def test_secrets_are_taken_out_also_where_a_read_cuts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "correct-horse-battery")
    monkeypatch.setattr(KNOWN, "looked", float("-inf"))
    lines = LogLines()
    written = lines.feed(b"with correct-horse", AT) + lines.feed(b"-battery\nand token=abc\nfine\n", AT)
    assert [without_time(line) for line in written.decode().splitlines()] == ["with ***", "and token=***", "fine"]


def test_a_private_key_over_many_lines_and_reads_is_hidden() -> None:
    lines = LogLines()
    written = lines.feed(b"-----BEGIN PRIVATE KEY-----\nMIIabc\n", AT) + lines.feed(b"MIIdef\n-----END", AT)
    assert b"MII" not in written + lines.feed(b" PRIVATE KEY-----\nafter\n", AT)


def test_a_line_of_a_megabyte_is_cut_and_the_next_one_is_whole() -> None:
    lines = LogLines()
    written = b"".join(lines.feed(b"x" * 65536, AT) for _ in range(16)) + lines.feed(b"\nnext\n", AT)
    first, second = written.decode().splitlines()
    assert first == f"{AT} {'x' * LONGEST_LINE}{CUT}"
    assert second == f"{AT} next"


def test_a_secret_in_a_long_line_is_hidden_where_the_line_is_cut() -> None:
    secret = "ghp_" + "a" * 36
    written = LogLines().feed(b"x" * (LONGEST_LINE - 11) + b" " + secret.encode() + b"\n", AT)
    assert b"ghp_" not in written


def test_a_log_is_capped_at_a_whole_line_with_a_sentence() -> None:
    lines = LogLines(most=1 << 20)
    written = b"".join(lines.feed(b"trial\n" * 1000, AT) for _ in range(1000))
    *kept, last = written.decode().splitlines()
    assert len(written) < (1 << 20) + 200
    assert set(kept) == {f"{AT} trial"}
    assert re.search(r"capped at 1 MiB", last)
    assert lines.feed(b"more\n", AT) + lines.end(AT) == b""


def test_bytes_that_are_no_text_are_written_all_the_same() -> None:
    assert LogLines().feed(b"\xff\xfe\n", AT).endswith(b"\n")
