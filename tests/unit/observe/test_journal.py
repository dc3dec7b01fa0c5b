"""The journal under good and bad luck: threads, kills, forks, full disks, and things that are no JSON."""

from __future__ import annotations

import json
import logging
import math
import signal
import threading
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalable.errors import ScalableError
from scalable.observe import Journal, read
from scalable.observe import journal as module
from scalable.observe.journal import line_of
from scalable.quantities import Money
from tests.helpers.observe.journal import written
from tests.helpers.waiting import LONG_S, until


def test_what_is_written_is_read_back_in_order(tmp_path: Path) -> None:
    with Journal(tmp_path / "j", clock=lambda: 12.5) as journal:
        journal.write("worker-joined", worker="w1", tag="demeter", slots=2)
        journal.write("ended", status="ok", reason="größer, 大, 🎉")
    assert written(tmp_path / "j") == [
        {"t": 12.5, "kind": "worker-joined", "worker": "w1", "tag": "demeter", "slots": 2},
        {"t": 12.5, "kind": "ended", "status": "ok", "reason": "größer, 大, 🎉"},
    ]


def test_a_record_may_say_when_it_happened(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.write("task", t=3.0)
    assert written(tmp_path / "j")[0]["t"] == 3.0


def test_every_record_of_many_threads_arrives_whole_and_in_the_order_of_its_thread(tmp_path: Path) -> None:
    def tell(thread: int) -> None:
        for place in range(500):
            journal.write("task", thread=thread, place=place, filler="x" * (place % 50))

    with Journal(tmp_path / "j") as journal:
        threads = [threading.Thread(target=tell, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    records = written(tmp_path / "j")
    for number in range(8):
        assert [record["place"] for record in records if record["thread"] == number] == list(range(500))


def test_records_are_in_the_file_soon_without_closing(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.write("gauge", n=1)
        assert until(lambda: len(written(tmp_path / "j")) == 1)


@pytest.mark.parametrize("kind", ["run-started", "worker-lost", "alert", "ended"])
def test_what_matters_is_written_at_once(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FLUSH_EVERY_S", 10 * LONG_S)
    with Journal(tmp_path / "j") as journal:
        journal.write(kind)
        assert until(lambda: len(written(tmp_path / "j")) == 1)


def test_flush_waits_until_all_is_in_the_file(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        for place in range(1000):
            journal.write("task", place=place)
        assert journal.flush()
        assert len(written(tmp_path / "j")) == 1000


def test_writing_on_after_a_torn_line_begins_a_line_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(b'{"t": 1, "kind": "a"}\n{"t": 2, "ki')
    with Journal(tmp_path / "j") as journal:
        journal.write("b")
    records = read(tmp_path / "j")
    assert [record["kind"] for record in records] == ["a", "b"]
    assert records.damaged == 1


def test_a_signal_handler_may_write_in_the_middle_of_writing(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        before = signal.signal(signal.SIGALRM, lambda *_: journal.write("alert", alert="walltime", text="soon"))
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
            for place in range(5000):
                journal.write("alert", alert="x", place=place)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    records = written(tmp_path / "j")
    assert sum(record["alert"] == "x" for record in records) == 5000
    assert sum(record["alert"] == "walltime" for record in records) > 0


def test_a_full_disk_is_said_once_and_counted_and_the_run_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FLUSH_EVERY_S", 0.01)
    with caplog.at_level(logging.WARNING, logger="scalable"), Journal("/dev/full") as journal:
        for place in range(100):
            journal.write("alert", place=place)
        assert not journal.flush()
        assert not journal.flush()
    assert journal.lost == 100
    assert journal.trouble == "No space left on device"
    assert [record.getMessage() for record in caplog.records] == [
        "the journal /dev/full cannot be written: No space left on device; the run goes on"
    ]


def test_what_is_written_after_closing_is_counted(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.close()
    journal.close()
    journal.write("task")
    assert journal.lost == 1
    assert written(tmp_path / "j") == []


def test_a_journal_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(ScalableError, match="No such file or directory"):
        Journal(tmp_path / "none" / "j")


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: object


class Refuses:
    def __repr__(self) -> str:
        raise RuntimeError("do not look at me")


@pytest.mark.parametrize(
    ("value", "becomes"),
    [
        (Path("/a/b"), "/a/b"),
        (Colour.RED, "red"),
        (Decimal("1.5"), 1.5),
        (Money(Decimal("0.17"), "EUR"), {"amount": 0.17, "currency": "EUR"}),
        (Point(1, Colour.RED), {"x": 1, "y": "red"}),
        ((1, 2), [1, 2]),
        ({1}, [1]),
        (math.nan, None),
        (math.inf, None),
        (10**5000, None),
        ({1: {2.5: "x", None: "y", (1, 2): "z"}}, {"1": {"2.5": "x", "None": "y", "[1, 2]": "z"}}),
        (Refuses(), "<Refuses>"),
        (b"bytes", "<bytes>"),
        ("half \ud83d of a pair", "half \ud83d of a pair"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_anything_can_be_a_field(value: object, becomes: object) -> None:
    assert json.loads(line_of({"t": 0, "kind": "x", "field": value}))["field"] == becomes


def test_a_field_that_contains_itself_is_cut() -> None:
    endless: list[Any] = [1]
    endless.append(endless)
    assert json.loads(line_of({"t": 0, "kind": "x", "field": endless}))["field"][0] == 1


def test_a_huge_text_is_cut_and_the_rest_of_the_record_stays() -> None:
    record = json.loads(
        line_of({"t": 0, "kind": "task", "error": "x" * 10**6, "peaks": {f"k{n}": n for n in range(9999)}})
    )
    assert record["error"].endswith("… (1,000,000 characters)")
    assert len(record["peaks"]) == 9999


def test_secrets_do_not_reach_the_file(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.write("run-started", command=["run", "--password", "hunter2"], env={"HF_TOKEN": "hunter2"})
        journal.write("task", key="tokenize-1", error="cannot reach postgresql://u:hunter2@db/x")
    assert b"hunter2" not in (tmp_path / "j").read_bytes()
    assert written(tmp_path / "j")[1]["key"] == "tokenize-1"


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.one_of(st.text(), st.integers()), inner)),
    max_leaves=6,
)


@given(st.dictionaries(st.text().filter(lambda name: name not in ("t", "kind")), values, max_size=5))
def test_a_line_is_always_one_valid_line(fields: dict[str, Any]) -> None:
    line = line_of({"t": 1.0, "kind": "x", **fields})
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert set(json.loads(line)) == {"t", "kind", *fields}


@pytest.mark.parametrize("odd", [1.5, float("nan"), object()], ids=["plain", "no number", "no JSON"])
def test_records_that_are_encoded_later_are_written_whole_and_without_secrets(tmp_path: Path, odd: object) -> None:
    path = tmp_path / "events.jsonl"
    with Journal(path, later=True) as journal:
        journal.write("plain", t=1.0, text="nothing to hide")
        journal.flush()
        journal.write("secret", t=2.0, text="password: hunter2", odd=odd)
        journal.write("long", t=3.0, texts=["x" * 1000] * 100)
    assert [record["kind"] for record in read(path)] == ["plain", "secret", "long"]
    assert "hunter2" not in path.read_text(encoding="utf-8")
