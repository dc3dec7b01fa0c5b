"""What a database refuses for good is set aside, told of, and can be tried again or dropped; the rest is stored."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing

import pytest

from scalable.store import Fate, IncidentRow, StoreError, SweepRun, open_store
from scalable.store.outbox import Entry, Outbox
from scalable.store.urls import location_of
from scalable.testing.store import a_row, key
from tests.tools.postgres import PrivatePostgres

BAD_FOLD = 13
WORDS = "refuses it: a constraint"


class DeadLetterContract:
    """Tests of dead letters for any kind of database; the fixture ``url`` names an empty one."""

    def test_one_bad_row_does_not_hold_up_the_good_rows_of_its_batch(
        self, url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with open_store(url) as store:
            refuse(url)
            with caplog.at_level(logging.WARNING):
                receipt = store.put([a_row(number, axes={"fold": number}, value="hush") for number in range(40)])
            assert (receipt.fate, receipt.rows, receipt.dead, receipt.safe) == (Fate.SET_ASIDE, 40, 1, True)
            assert WORDS in receipt.reason
            assert store.keys() == {key(number) for number in range(40) if number != BAD_FOLD}
            [letter] = store.dead_letters()
            assert (letter.kind, letter.tries >= 3, letter.reason) == ("row", True, receipt.reason)
            assert Entry.from_line(letter.content.encode()).record == a_row(
                BAD_FOLD, axes={"fold": BAD_FOLD}, value="hush"
            )
            assert f"{key(BAD_FOLD)} became dead letter {letter.id}: store" in caplog.text
            assert "hush" not in receipt.reason + caplog.text
            assert store.waiting == 0

    def test_a_row_alone_is_tried_three_times(self, url: str) -> None:
        with open_store(url) as store:
            refuse(url)
            assert store.put([a_row(axes={"fold": BAD_FOLD})]).fate is Fate.SET_ASIDE
            assert [letter.tries for letter in store.dead_letters()] == [3]

    def test_only_the_receipts_of_bad_rows_tell_of_them(self, url: str) -> None:
        with open_store(url) as store:
            refuse(url)
            receipts = [store.submit([a_row(number, axes={"fold": number})]) for number in range(20)]
            fates = [receipt.result(timeout=60).fate for receipt in receipts]
        assert [number for number, fate in enumerate(fates) if fate is not Fate.COMMITTED] == [BAD_FOLD]

    def test_many_bad_rows_are_all_found(self, url: str) -> None:
        with open_store(url) as store:
            refuse(url, lowest=0, highest=49)
            assert store.put([a_row(number, axes={"fold": number}) for number in range(120)]).dead == 50
            assert len(store.dead_letters()) == 50
            assert len(store.keys()) == 70

    def test_dead_letters_that_are_taken_now_are_dead_no_longer(self, url: str) -> None:
        with open_store(url) as store:
            refuse(url)
            store.put([a_row(axes={"fold": BAD_FOLD}, attempt=1), a_row("other", axes={"fold": BAD_FOLD})])
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

    def test_a_replayed_row_does_not_replace_a_better_one(self, url: str) -> None:
        with open_store(url) as store:
            refuse(url)
            store.put([a_row(axes={"fold": BAD_FOLD}, attempt=1)])
            allow(url)
            store.put([a_row(attempt=2)])
            assert store.replay_dead_letters().replayed == 1
            assert list(store.rows()) == [a_row(attempt=2)]

    def test_dead_letters_can_be_dropped(self, url: str) -> None:
        with open_store(url) as store:
            refuse(url)
            store.put([a_row(number, axes={"fold": BAD_FOLD}) for number in range(3)])
            [first, *rest] = store.dead_letters()
            assert store.drop_dead_letters([first.id]) == 1
            assert store.dead_letters() == rest
            with pytest.raises(StoreError, match=first.id):
                store.drop_dead_letters([first.id])
            assert store.drop_dead_letters() == 2
            assert (store.dead_letters(), store.keys()) == ([], set())

    def test_sweeps_and_incidents_are_set_aside_as_well(self, url: str) -> None:
        with open_store(url) as store:
            refuse(url, "scalable_runs", "expected = 13")
            assert store.put_run(SweepRun(id="1", sweep="s", started=1.0, expected=13)).fate is Fate.SET_ASIDE
            assert store.put_incident(IncidentRow(id="1", kind="stuck", started=1.0)).fate is Fate.COMMITTED
            assert [letter.kind for letter in store.dead_letters()] == ["sweep"]

    def test_rows_left_by_a_dead_process_are_set_aside_when_the_store_is_opened(
        self, url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        open_store(url).close()
        beside = location_of(url).beside
        beside.parent.mkdir(parents=True, exist_ok=True)
        left = Outbox.new(beside)
        left.append([Entry.of(a_row(number, axes={"fold": number}), 1.0) for number in range(20)])
        left.close()
        refuse(url)
        with open_store(url) as store:
            assert store.recovery.rows == 20
            assert (len(store.keys()), len(store.dead_letters()), store.waiting) == (19, 1, 0)
        with open_store(url) as store:
            assert (store.recovery.rows, len(store.dead_letters())) == (0, 1)

    def test_the_same_row_refused_again_is_one_letter_with_more_tries(self, url: str) -> None:
        with open_store(url) as store:
            refuse(url)
            for _ in range(2):
                store.put([a_row(axes={"fold": BAD_FOLD})])
            assert [letter.tries for letter in store.dead_letters()] == [6]

    def test_a_letter_that_the_table_does_not_take_is_kept_beside_the_outbox(self, url: str) -> None:
        with open_store(url) as store:
            refuse(url)
            refuse_letters(url)
            assert store.put([a_row(axes={"fold": BAD_FOLD}), a_row("good")]).fate is Fate.SET_ASIDE
            store.put([a_row(axes={"fold": BAD_FOLD})])
            [letter] = store.dead_letters()
            assert letter.tries >= 6
            beside = location_of(url).beside
            file = beside.with_name(f"{beside.name}-dead-letters.jsonl")
            assert len(file.read_text().splitlines()) == 1
        with open_store(url) as store:
            assert store.replay_dead_letters().left[0].id == letter.id
            allow(url)
            assert store.replay_dead_letters().replayed == 1
            assert store.dead_letters() == []
        assert not file.exists()


def refuse(
    url: str, table: str = "scalable_rows", condition: str = "", lowest: int = BAD_FOLD, highest: int = BAD_FOLD
) -> None:
    """Let the database refuse rows of some folds or other records, as a trigger or constraint of its owner's would."""
    if url.startswith("sqlite"):
        new = f"NEW.{condition}" if condition else f"json_extract(NEW.axes, '$.fold') BETWEEN {lowest} AND {highest}"
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.execute(
                f"CREATE TRIGGER no BEFORE INSERT ON {table} WHEN {new} BEGIN SELECT RAISE(ABORT, 'hush'); END"
            )
            connection.commit()
    else:
        condition = condition or f"(axes::json->>'fold')::int BETWEEN {lowest} AND {highest}"
        with PrivatePostgres.connection_to(url) as connection:
            connection.execute(f"ALTER TABLE {table} ADD CONSTRAINT no CHECK (NOT ({condition})) NOT VALID")


def allow(url: str, table: str = "scalable_rows") -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.execute("DROP TRIGGER no")
            connection.commit()
    else:
        with PrivatePostgres.connection_to(url) as connection:
            connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT no")


def refuse_letters(url: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.execute(
                "CREATE TRIGGER none BEFORE INSERT ON scalable_dead_letters BEGIN SELECT RAISE(ABORT, ''); END"
            )
            connection.commit()
    else:
        with PrivatePostgres.connection_to(url) as connection:
            connection.execute("ALTER TABLE scalable_dead_letters ADD CONSTRAINT none CHECK (false) NOT VALID")
