"""What jobs print: a time before every line, and which lines are of which runner."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

from scalable.observe.logs import merged
from scalable.worker.runner.output import StampedStream, lines_of, utc

HEAD = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z \[7\] "


def printed(*pieces: str) -> str:
    raw = io.BytesIO()
    stream = StampedStream(raw, encoding="utf-8", line_buffering=True)
    stream.owner = 7
    for piece in pieces:
        assert stream.write(piece) == len(piece)
    stream.flush()
    return raw.getvalue().decode()


def test_every_line_begins_with_a_time_and_its_process() -> None:
    assert re.fullmatch(f"{HEAD}one\n{HEAD}two\n{HEAD}\n{HEAD}three\n", printed("one\ntwo\n", "\n", "three\n"))


def test_a_line_that_is_written_in_pieces_has_one_time() -> None:
    assert re.fullmatch(f"{HEAD}one, two\n{HEAD}three", printed("one", ", ", "two\nthr", "", "ee"))


def test_a_line_is_written_as_soon_as_it_is_complete() -> None:
    raw = io.BytesIO()
    stream = StampedStream(io.BufferedWriter(raw), encoding="utf-8", line_buffering=True)
    stream.write("about to crash")
    assert raw.getvalue() == b""
    stream.write("\n")
    assert raw.getvalue().endswith(b"about to crash\n")


def test_lines_of_other_runners_and_of_the_worker_are_told_apart() -> None:
    lines = [
        "from C code of it",
        f"{utc(1e9)} [7] one",
        "Traceback",
        f"{utc(1e9)} [70] of another",
        "  of another, too",
        "2001-09-09 01:46:40,000 - distributed.worker - INFO - hello",
        f"{utc(1e9 + 1)} [7] two",
    ]
    assert lines_of(7, lines) == [lines[0], lines[1], lines[2], lines[6]]


def test_logs_are_merged_by_these_times() -> None:
    logs: dict[str, Sequence[str]] = {
        "a": [f"{utc(10.5)} [1] second"],
        "b": [f"{utc(10.25)} [2] first", "of b", f"{utc(11)} [2] third"],
    }
    assert [line.rpartition(" ")[2] for _, line in merged(logs)] == ["first", "b", "second", "third"]
