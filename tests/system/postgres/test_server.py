"""A PostgreSQL behind the store: what is said when it cannot be used, what becomes of rows while it is away."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from scalable.store import Fate, Receipt, Store, StoreError, SweepRun, open_store
from scalable.store.database import Database
from scalable.store.urls import location_of, shown_url
from scalable.testing.store import a_row, key
from scalable.testing.store_ledger import a_decision
from scalable.wording import install_hint
from tests.helpers.store.children import put_some
from tests.helpers.store.trouble import Child
from tests.helpers.waiting import until
from tests.tools.errors import ToolMissingError
from tests.tools.postgres import PrivatePostgres

NEVER_S = 600.0


@pytest.fixture
def own() -> Iterator[PrivatePostgres]:
    """A server that the test may stop."""
    try:
        server = PrivatePostgres()
    except ToolMissingError as missing:
        pytest.skip(str(missing))
    with server:
        yield server


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Outboxes are in the current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(url: str) -> str:
    with pytest.raises(StoreError) as refused:
        open_store(url, patience_s=0.5)
    assert refused.value.__cause__ is None
    return str(refused.value)


def test_a_wrong_password_is_told_and_not_shown(postgres: PrivatePostgres) -> None:
    postgres.execute("DROP ROLE IF EXISTS locked; CREATE ROLE locked LOGIN PASSWORD 'right'")
    said = refusal(postgres.url(user="locked", password="hush"))
    shown = f"postgresql://locked@127.0.0.1:{postgres.port}/postgres"
    assert said == f"store {shown} refuses the password; write the right one, or leave it to PGPASSWORD"
    assert "wants a password; write one into the URL" in refusal(postgres.url(user="locked"))
    assert "may not be used by this user; grant it the right" in refusal(postgres.url(user="locked", password="right"))


def test_a_password_may_come_from_the_environment(postgres: PrivatePostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres.execute("DROP ROLE IF EXISTS locked; CREATE ROLE locked LOGIN PASSWORD 'p@ss/wörd%'")
    postgres.execute("CREATE SCHEMA IF NOT EXISTS theirs AUTHORIZATION locked")
    options = {"options": "-csearch_path%3Dtheirs"}
    with open_store(postgres.url(user="locked", password="p%40ss%2Fw%C3%B6rd%25", **options)) as store:
        store.put([a_row()])
    monkeypatch.setenv("PGPASSWORD", "p@ss/wörd%")
    with open_store(postgres.url(user="locked", **options)) as store:
        assert store.keys() == {key("row")}
    postgres.execute("DROP SCHEMA theirs CASCADE")


def test_what_does_not_exist_is_named(postgres: PrivatePostgres) -> None:
    said = refusal(postgres.url("nowhere"))
    assert "/nowhere has no such database; create it with  createdb NAME" in said
    nowhere = postgres.url(options="-csearch_path%3Dnowhere")
    assert "has no such schema; create it, or leave search_path out of the URL" in refusal(nowhere)
    assert "has no such user; create it with  createuser NAME" in refusal(postgres.url(user="stranger"))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://u:hush@127.0.0.1:1/db", "cannot be reached: nothing listens there; start the"),
        ("postgresql://u:hush@no-such-host.invalid/db", "cannot be found: no host has this name; correct it"),
        ("postgresql:///db?host=/nowhere&password=hush", "cannot be reached: nothing listens there"),
        ("postgresql://u:hush@127.0.0.1/db?shush=hush", "an option in its URL that PostgreSQL does not know"),
    ],
)
def test_a_server_that_cannot_be_reached_is_told_in_words(url: str, said: str) -> None:
    answer = refusal(url)
    assert said in answer
    assert "hush" not in answer


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:hush@host:5433/db?sslmode=require", "postgresql://me@host:5433/db"),
        ("postgres://host/db?password=hush", "postgresql://host/db"),
        ("postgresql+psycopg:///db", "postgresql:///db"),
        ("postgresql://me:hu:sh@[::1]/db", "postgresql://me@::1/db"),
        ("postgresql://me:hu@sh@host/db", "postgresql:…"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_one_database_has_one_outbox_folder_whoever_asks(here: Path) -> None:
    same = {location_of(f"postgresql://{who}@host:5432/db").beside for who in ("a", "a:hush", "b:other")}
    other = location_of("postgresql://a@host:5432/other").beside
    assert len(same | {other}) == 2
    assert other.parent.parent == here / ".scalable/outbox"


def test_a_missing_driver_names_the_extra() -> None:
    code = """
import sys
sys.modules["psycopg"] = None
from scalable.store import StoreError, open_store
try:
    open_store("postgresql://user:hush@host/db")
except StoreError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == (
        f"store postgresql://user@host/db needs psycopg, which is not installed; {install_hint('postgres')}\n"
    )


def test_commits_are_durable_even_where_the_server_is_told_to_be_quick(server_url: str) -> None:
    database = Database(location_of(f"{server_url}%20-csynchronous_commit%3Doff"), patience_s=2.5)
    with database.reading() as connection:
        found = [connection.execute(text(f"SHOW {name}")).scalar() for name in ("synchronous_commit", "lock_timeout")]
    database.close()
    assert found == ["on", "2500ms"]


def test_the_live_configuration_is_jsonb_and_has_its_row_from_the_first_sweep_on(
    postgres: PrivatePostgres, server_url: str
) -> None:
    with open_store(server_url) as store:
        store.put_run(SweepRun(id="1", sweep="s", started=1.0))
        question = "SELECT version, jsonb_typeof(base_env), base_env->>'cleanlab' FROM ftf_config"
        assert postgres.execute(question, server_url) == [(0, "object", None)]
        store.set_config({"cleanlab": "off"}, factor="cleanlab", variant="off", reason="why", expect_version=0)
        assert postgres.execute(question, server_url) == [(1, "object", "off")]


def test_a_server_that_only_reads_shows_its_ledger_and_says_why_it_takes_no_decision(server_url: str) -> None:
    with open_store(server_url) as store:
        entry = store.record_decision(a_decision())
    with open_store(f"{server_url}%20-cdefault_transaction_read_only%3Don") as store:
        assert store.ledger() == [entry]
        with pytest.raises(StoreError, match="is read-only; name the primary server"):
            store.record_decision(a_decision())


def test_tables_of_a_newer_version_and_of_others_are_left_alone(postgres: PrivatePostgres, server_url: str) -> None:
    open_store(server_url).close()
    postgres.execute("INSERT INTO scalable_schema VALUES (7)", server_url)
    assert "has tables of version 7, and this scalable knows version 6; update scalable" in refusal(server_url)
    theirs = postgres.new_place()
    postgres.execute("CREATE TABLE finetune_results (id INTEGER)", theirs)
    assert "has a table finetune_results that scalable did not make" in refusal(theirs)


def test_processes_that_open_a_store_at_once_all_write_their_rows(server_url: str) -> None:
    children = [Child(put_some, server_url, name, 10) for name in range(4)]
    assert [child.last_words() for child in children] == [[{Fate.COMMITTED}]] * 4
    with open_store(server_url) as store:
        assert store.keys() == {key((name, number)) for name in range(4) for number in range(10)}


def test_a_writer_that_holds_the_tables_is_waited_for_and_then_told_of(
    postgres: PrivatePostgres, server_url: str
) -> None:
    with open_store(server_url, patience_s=0.05, ask_again_s=NEVER_S) as store:
        with PrivatePostgres.connection_to(server_url) as other, other.transaction():
            other.execute("LOCK TABLE scalable_rows IN EXCLUSIVE MODE")
            receipt = store.put([a_row()])
            assert (receipt.fate, "is locked by another writer" in receipt.reason) == (Fate.KEPT, True)
            assert store.keys() == set()
        assert store.replay().fate is Fate.COMMITTED
        assert store.keys() == {key("row")}


def test_writers_of_the_same_rows_in_different_orders_do_not_stop_each_other(server_url: str) -> None:
    rows = [a_row(number, elapsed_s=1.0) for number in range(200)]

    def write(store: Store, turn: int) -> None:
        for attempt in range(1, 6):
            batch = [a_row(number, attempt=attempt, worker=f"w{turn}") for number in range(200)]
            fates.append(store.put(batch[:: -1 if turn else 1]).fate)

    fates: list[Fate] = []
    with open_store(server_url) as first, open_store(server_url) as second:
        first.put(rows)
        threads = [threading.Thread(target=write, args=pair) for pair in ((first, 0), (second, 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert fates == [Fate.COMMITTED] * 10
        assert {row.attempt for row in first.rows()} == {5}


@pytest.mark.journey
def test_a_server_stopped_in_the_middle_of_writing_loses_nothing_and_doubles_nothing(own: PrivatePostgres) -> None:
    url = own.new_place()
    with open_store(url, patience_s=1, ask_again_s=0.1) as store:
        receipts: list[tuple[int, Receipt]] = []
        stopped, over = threading.Event(), threading.Event()

        def write() -> None:
            number = 0
            while not over.is_set() and number < 5000:
                receipts.append((number, store.put([a_row(number), a_row((number, "second"))])))
                number += 1
                if receipts[-1][1].fate is Fate.KEPT:
                    stopped.set()

        writer = threading.Thread(target=write)
        writer.start()
        for immediate in (True, False):
            seen = len(receipts) + 20
            assert until(lambda: len(receipts) > seen)  # noqa: B023  it is asked before seen changes
            own.stop(immediate=immediate)
            stopped.clear()
            assert stopped.wait(60), "rows are kept while the server is away"
            with pytest.raises(StoreError, match=r"nothing listens there|connection was lost"):
                store.keys()
            own.start()
            assert until(lambda: store.waiting == 0)
        over.set()
        writer.join(60)
        assert {receipt.fate for _, receipt in receipts} == {Fate.COMMITTED, Fate.KEPT}
        assert until(lambda: store.waiting == 0)
        expected = {a_row(name) for number, _ in receipts for name in (number, (number, "second"))}
        assert set(store.rows()) == expected
        assert len(list(store.rows())) == len(expected)


def test_rows_kept_while_the_server_is_away_are_found_by_the_next_process(own: PrivatePostgres, here: Path) -> None:
    url = own.new_place()
    store = open_store(url, patience_s=0.1, ask_again_s=NEVER_S)
    own.stop()
    receipt = store.put([a_row()])
    assert (receipt.fate, "nothing listens there" in receipt.reason) == (Fate.KEPT, True)
    store.close()
    [left] = (here / ".scalable/outbox").rglob("*.jsonl")
    assert "cannot be reached: nothing listens there; start the server" in refusal(url)
    own.start()
    with open_store(url) as store:
        assert (store.recovery.rows, store.keys()) == (1, {key("row")})
    assert not left.exists()


def test_a_place_outlives_a_server_that_is_away_for_a_moment(own: PrivatePostgres) -> None:
    with open_store(own.new_place(), patience_s=0.1) as store:
        ticket = store.leases(NEVER_S).ask("calibration", "normal")
        assert not isinstance(ticket.try_take(lambda holders, before: ""), str)
        own.stop(immediate=True)
        with pytest.raises(StoreError, match="nothing listens there"):  # not False: nobody said that it is lost
            ticket.beat()
        with pytest.raises(StoreError, match="nothing listens there"):
            store.set_config({}, factor="f", variant="v", reason="why", expect_version=0, token=ticket.token)
        own.start()
        assert ticket.beat()
        assert store.set_config({}, factor="f", variant="v", reason="why", expect_version=0, token=ticket.token)


def test_rows_are_stored_where_no_outbox_can_be_made(server_url: str, here: Path) -> None:
    (here / ".scalable").touch()
    with open_store(server_url) as store:
        assert store.put([a_row()]).fate is Fate.COMMITTED


def test_large_rows_are_sent_in_several_statements(server_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalable.store.dialects.LARGEST_STATEMENT", 5000)
    with open_store(server_url) as store:
        rows = [a_row(number, value=["x" * (number * 500)]) for number in range(20)]
        assert store.put(rows).fate is Fate.COMMITTED
        assert set(store.rows()) == set(rows)
