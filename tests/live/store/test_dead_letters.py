"""What a database refuses for good is set aside, told of, and can be tried again or dropped; the rest is stored."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from scalable.store import Fate, open_store
from scalable.store.urls import location_of
from scalable.testing.store import a_row
from tests.helpers.store.dead_letters import BAD_FOLD, allow, refuse
from tests.tools.postgres import PrivatePostgres


def test_the_same_row_refused_again_is_one_letter_with_more_tries(url: str) -> None:
    with open_store(url) as store:
        refuse(url)
        for _ in range(2):
            store.put([a_row(fold=BAD_FOLD)])
        assert [letter.tries for letter in store.dead_letters()] == [6]


def test_a_letter_that_the_table_does_not_take_is_kept_beside_the_outbox(url: str) -> None:
    with open_store(url) as store:
        refuse(url)
        refuse_letters(url)
        assert store.put([a_row(fold=BAD_FOLD), a_row("good")]).fate is Fate.SET_ASIDE
        store.put([a_row(fold=BAD_FOLD)])
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
