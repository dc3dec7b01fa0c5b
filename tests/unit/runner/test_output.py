"""What jobs print: a mark before every line, and which lines of a log are of which job."""

from __future__ import annotations

import io

import pytest

from scalable.worker.printing import utc
from scalable.worker.runner.evidence import LoggedWork
from scalable.worker.runner.output import MarkedStream, mark_of


@pytest.fixture(autouse=True)
def mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MarkedStream, "mark", mark_of(7, 2))


def printed(*pieces: str) -> str:
    raw = io.BytesIO()
    stream = MarkedStream(raw, encoding="utf-8", line_buffering=True)
    for piece in pieces:
        assert stream.write(piece) == len(piece)
    stream.flush()
    return raw.getvalue().decode()


def test_every_line_begins_with_the_mark() -> None:
    assert printed("one\ntwo\n", "\n", "three\n") == "[7.2] one\n[7.2] two\n[7.2] \n[7.2] three\n"


def test_a_line_that_is_written_in_pieces_has_one_mark() -> None:
    assert printed("one", ", ", "two\nthr", "", "ee") == "[7.2] one, two\n[7.2] three"


def test_a_line_is_written_as_soon_as_it_is_complete() -> None:
    raw = io.BytesIO()
    stream = MarkedStream(io.BufferedWriter(raw), encoding="utf-8", line_buffering=True)
    stream.write("about to crash")
    assert raw.getvalue() == b""
    stream.write("\n")
    assert raw.getvalue() == b"[7.2] about to crash\n"


def test_lines_of_other_jobs_and_of_the_worker_are_told_apart() -> None:
    lines = [
        f"{utc(90)} [7.1] of the job before",
        f"{utc(95)} from C code of that",
        f"{utc(101)} from C code of it",
        f"{utc(102)} [7.2] one",
        f"{utc(102)} Traceback",
        f"{utc(103)} [8.2] of the job beside",
        f"{utc(103)}   of that, too",
        f"{utc(104)} 2026-01-01 00:00:00,000 - distributed.worker - INFO - hello",
        f"{utc(105)} [7.2] two",
        f"{utc(106)} scalable worker: had notice",
    ]
    assert LoggedWork(7, 2, 100.0).lines(lines) == [lines[2], lines[3], lines[4], lines[8]]
