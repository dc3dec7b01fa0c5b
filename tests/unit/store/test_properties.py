"""Whatever rows come, in any order and groups, with crashes and locks in between: the content is the same."""

from __future__ import annotations

import tempfile

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalable.store import Fate, Row, RowStatus, open_store
from scalable.store.outbox import Entry, merged
from scalable.store.rows import KEY
from scalable.testing.store import a_row, key
from tests.helpers.store.properties import ENDS
from tests.tools.postgres import PrivatePostgres

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)

NUMBERS = st.floats(-1e12, 1e12)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
).filter(lambda value: "$float" not in repr(value))

any_rows = st.builds(
    Row,
    run_key=st.from_regex(KEY, fullmatch=True),
    name=NAMES,
    sweep=st.none() | NAMES,
    variant=st.none() | st.booleans() | st.integers(-(2**62), 2**62) | NUMBERS | NAMES,
    asset=st.none() | NAMES,
    fold=st.none() | st.integers(0, 2**63 - 1),
    cost_bps=st.none() | NUMBERS,
    metrics=st.dictionaries(st.text(), JSON, max_size=4).filter(lambda value: "$float" not in repr(value)),
    value=JSON,
    run_status=st.sampled_from(RowStatus),
    attempt=st.integers(1, 2**63 - 1),
    error=st.none() | st.text(),
    worker=st.none() | NAMES,
)


@settings(max_examples=80)
@given(row=any_rows, written_at=NUMBERS)
def test_every_row_comes_back_from_the_outbox_as_it_was(row: Row, written_at: float) -> None:
    line = Entry.of(row, written_at).to_line()
    assert line.count(b"\n") == 1
    back = Entry.from_line(line)
    assert back.record == row
    assert back.written_at == written_at
    assert back.to_line() == line


@settings(max_examples=10)
@given(rows=st.lists(any_rows, min_size=1, max_size=20, unique_by=lambda row: row.run_key))
def test_every_row_comes_back_from_the_database_as_it_was(rows: list[Row]) -> None:
    with tempfile.TemporaryDirectory() as folder, open_store(f"sqlite:///{folder}/results.db") as store:
        store.put(rows)
        assert {row.run_key: row for row in store.rows()} == {row.run_key: row for row in rows}


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(any_rows, min_size=1, max_size=20, unique_by=lambda row: row.run_key))
def test_every_row_comes_back_from_a_server_as_it_was(
    postgres: PrivatePostgres, server_url: str, rows: list[Row]
) -> None:
    with open_store(server_url) as store:
        postgres.execute("TRUNCATE finetune_results", server_url)
        assert store.put(rows).fate is Fate.COMMITTED
        assert {row.run_key: row for row in store.rows()} == {row.run_key: row for row in rows}


def test_the_rank_of_a_row_is_the_same_in_python_and_in_the_database(url: str) -> None:
    names = [(end, attempt, seconds) for end in ENDS for attempt in (1, 2, 10) for seconds in (0, 1)]
    rows = [a_row(run_status=e[0], marked=e[1], attempt=attempt, elapsed_s=seconds) for e, attempt, seconds in names]
    for first in rows:
        for second in rows:
            [expected] = merged([Entry.of(first, 1.0), Entry.of(second, 1.0)])
            assert expected.record == max((first, second), key=lambda row: Entry.of(row, 1.0).rank)
    with open_store(url) as store:
        for first in sorted(rows, key=lambda row: Entry.of(row, 1.0).rank):
            store.put([first])
            assert store.get(key("row")) == first
            store.put([row for row in rows if Entry.of(row, 1.0).rank <= Entry.of(first, 1.0).rank])
            assert store.get(key("row")) == first
