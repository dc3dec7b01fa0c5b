"""Whatever rows come, in any order and groups, with crashes and locks in between: the content is the same."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from scalable.store import Row, open_store
from scalable.store.outbox import Entry, Outbox, merged
from scalable.testing.store import a_row
from tests.helpers.store.properties import ENDS, NUMBERS, RankContract, any_rows
from tests.helpers.store.trouble import another_writer


class TestSqlite(RankContract):
    """The file that ``url`` names."""


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


rivals = st.builds(
    lambda name, end, **changes: a_row(name, run_status=end[0], marked=end[1], **changes),
    st.integers(0, 2),
    st.sampled_from(ENDS),
    attempt=st.integers(1, 3),
    elapsed_s=st.integers(0, 2),
)


@settings(max_examples=15)
@given(rows=st.lists(rivals, max_size=8), data=st.data())
def test_any_order_of_puts_ends_with_the_same_content(rows: list[Row], data: st.DataObject) -> None:
    expected = {entry.record for entry in merged(Entry.of(row, 1.0) for row in rows)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.db"
        put_in_groups(path, data.draw(st.permutations(rows)), data)
        with open_store(f"sqlite:///{path}") as store:
            assert set(store.rows()) == expected


def put_in_groups(path: Path, rows: list[Row], data: st.DataObject) -> None:
    """Some rows together, some into a locked database, some left by a process that died, some after reopening."""
    url = f"sqlite:///{path}"
    store = open_store(url, patience_s=0, ask_again_s=600)
    while rows:
        size = data.draw(st.integers(1, len(rows)))
        group, rows = rows[:size], rows[size:]
        match data.draw(st.sampled_from(["put", "locked", "left", "reopened"])):
            case "put":
                store.put(group)
            case "locked":
                with another_writer(path):
                    assert store.put(group).safe
            case "left":
                outbox = Outbox.new(path)
                outbox.append([Entry.of(row, 1.0) for row in group])
                outbox.close()
            case "reopened":
                store.close()
                store = open_store(url, patience_s=0, ask_again_s=600)
                store.put(group)
    store.close()
