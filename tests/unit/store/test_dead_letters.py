"""What a database refuses for good is set aside, told of, and can be tried again or dropped; the rest is stored."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from scalable.store import Fate, IncidentRow, RowStatus, StoreError, SweepRun, open_store
from scalable.store.outbox import Entry, Outbox
from scalable.store.urls import location_of
from scalable.testing.store import a_row, key
from tests.helpers.store.dead_letters import BAD_FOLD, allow, refuse
from tests.tools.postgres import PrivatePostgres

WORDS = "refuses it: a constraint"


def test_one_bad_row_does_not_hold_up_the_good_rows_of_its_batch(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with open_store(url) as store:
        refuse(url)
        with caplog.at_level(logging.WARNING):
            receipt = store.put([a_row(number, fold=number, value="hush") for number in range(40)])
        assert (receipt.fate, receipt.rows, receipt.dead, receipt.safe) == (Fate.SET_ASIDE, 40, 1, True)
        assert WORDS in receipt.reason
        assert store.keys() == {key(number) for number in range(40) if number != BAD_FOLD}
        [letter] = store.dead_letters()
        assert (letter.kind, letter.tries >= 3, letter.reason) == ("row", True, receipt.reason)
        assert Entry.from_line(letter.content.encode()).record == a_row(BAD_FOLD, fold=BAD_FOLD, value="hush")
        assert f"{key(BAD_FOLD)} became dead letter {letter.id}: store" in caplog.text
        assert "hush" not in receipt.reason + caplog.text
        assert store.waiting == 0


def test_a_row_alone_is_tried_three_times(url: str) -> None:
    with open_store(url) as store:
        refuse(url)
        assert store.put([a_row(fold=BAD_FOLD)]).fate is Fate.SET_ASIDE
        assert [letter.tries for letter in store.dead_letters()] == [3]


def test_only_the_receipts_of_bad_rows_tell_of_them(url: str) -> None:
    with open_store(url) as store:
        refuse(url)
        receipts = [store.submit([a_row(number, fold=number)]) for number in range(20)]
        fates = [receipt.result(timeout=60).fate for receipt in receipts]
    assert [number for number, fate in enumerate(fates) if fate is not Fate.COMMITTED] == [BAD_FOLD]


def test_many_bad_rows_are_all_found(url: str) -> None:
    with open_store(url) as store:
        refuse(url, condition="fold >= 0 AND fold < 50")
        assert store.put([a_row(number, fold=number) for number in range(120)]).dead == 50
        assert len(store.dead_letters()) == 50
        assert len(store.keys()) == 70


def test_dead_letters_that_are_taken_now_are_dead_no_longer(url: str) -> None:
    with open_store(url) as store:
        refuse(url)
        store.put([a_row(fold=BAD_FOLD, attempt=1), a_row("other", fold=BAD_FOLD)])
        outcome = store.replay_dead_letters()
        assert (outcome.replayed, len(outcome.left), outcome.reason) == (0, 2, "")
        assert {letter.tries for letter in store.dead_letters()} == {each.tries for each in outcome.left}
        allow(url)
        [letter, other] = store.dead_letters()
        assert store.replay_dead_letters([letter.id]).replayed == 1
        assert store.dead_letters() == [other]
        assert store.replay_dead_letters().replayed == 1
        assert store.dead_letters() == []
        assert store.keys() == {key("row"), key("other")}


def test_a_replayed_row_does_not_replace_a_better_one(url: str) -> None:
    with open_store(url) as store:
        refuse(url)
        store.put([a_row(fold=BAD_FOLD, attempt=1)])
        allow(url)
        store.put([a_row(attempt=2)])
        assert store.replay_dead_letters().replayed == 1
        assert list(store.rows()) == [a_row(attempt=2)]


def test_dead_letters_can_be_dropped(url: str) -> None:
    with open_store(url) as store:
        refuse(url)
        store.put([a_row(number, fold=BAD_FOLD) for number in range(3)])
        [first, *rest] = store.dead_letters()
        assert store.drop_dead_letters([first.id]) == 1
        assert store.dead_letters() == rest
        with pytest.raises(StoreError, match=first.id):
            store.drop_dead_letters([first.id])
        assert store.drop_dead_letters() == 2
        assert (store.dead_letters(), store.keys()) == ([], set())


def test_sweeps_and_incidents_are_set_aside_as_well(url: str) -> None:
    with open_store(url) as store:
        refuse(url, "finetune_runs", "expected = 13")
        assert store.put_run(SweepRun(id="1", sweep="s", started=1.0, expected=13)).fate is Fate.SET_ASIDE
        assert store.put_incident(IncidentRow(id="1", kind="stuck", started=1.0)).fate is Fate.COMMITTED
        assert [letter.kind for letter in store.dead_letters()] == ["sweep"]


def test_rows_left_by_a_dead_process_are_set_aside_when_the_store_is_opened(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    open_store(url).close()
    beside = location_of(url).beside
    beside.parent.mkdir(parents=True, exist_ok=True)
    left = Outbox.new(beside)
    left.append([Entry.of(a_row(number, fold=number), 1.0) for number in range(20)])
    left.close()
    refuse(url)
    with open_store(url) as store:
        assert store.recovery.rows == 20
        assert (len(store.keys()), len(store.dead_letters()), store.waiting) == (19, 1, 0)
    with open_store(url) as store:
        assert (store.recovery.rows, len(store.dead_letters())) == (0, 1)


def test_a_line_of_a_newer_version_stays_a_letter_until_it_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    open_store(f"sqlite:///{path}").close()
    left = Outbox.new(path)
    left.append([Entry.of(a_row(), 1.0)])
    left.close()
    line = left.path.read_bytes()
    left.path.write_bytes(line.replace(b'"sum":"', b'"sum":"f', 1)[:-2] + b"\xff\0\n")
    with open_store(f"sqlite:///{path}") as store:
        [letter] = store.dead_letters()
        assert letter.content.endswith("\\xff\\x00")
        outcome = store.replay_dead_letters()
        assert (outcome.replayed, outcome.left[0].reason) == (0, "the checksum does not match")


def test_a_character_that_an_old_servers_encoding_lacks_costs_only_its_own_row(
    postgres: PrivatePostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    postgres.execute("CREATE DATABASE old ENCODING 'LATIN1' TEMPLATE template0")
    with open_store(postgres.url("old")) as store:
        receipt = store.put([a_row("ü", asset="ü"), a_row("漢", asset="漢"), a_row("fine", metrics={"name": "漢"})])
        assert (receipt.fate, receipt.dead) == (Fate.SET_ASIDE, 1)
        assert "make the database with ENCODING 'UTF8'" in receipt.reason
        assert {row.asset for row in store.rows()} == {"ü", "AAVEUSDC"}
        assert store.keys() == {key("ü"), key("fine")}
        assert [row.run_status for row in store.rows()] == [RowStatus.FINISHED] * 2
