"""Generated rows, and the rule by which one row replaces another."""

from __future__ import annotations

from hypothesis import strategies as st

from scalable.store import Row, RowStatus, open_store
from scalable.store.outbox import Entry, merged
from scalable.store.rows import KEY, axis_name
from scalable.testing.store import a_row, key

ENDS = [(RowStatus.FINISHED, False), (RowStatus.FAILED, False), (RowStatus.FAILED, True)]  # and whether marked

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)

NUMBERS = st.floats(-1e12, 1e12)

VALUES = st.booleans() | st.integers(-(2**62), 2**62) | NUMBERS | NAMES

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
    axes=st.dictionaries(NAMES.filter(axis_name), VALUES, max_size=4).map(lambda axes: {**axes, "model": "svm"}),
    compared=st.sampled_from([(), ("model",)]),
    metrics=st.dictionaries(st.text(), JSON, max_size=4).filter(lambda value: "$float" not in repr(value)),
    value=JSON,
    run_status=st.sampled_from(RowStatus),
    attempt=st.integers(1, 2**63 - 1),
    error=st.none() | st.text(),
    worker=st.none() | NAMES,
)


class RankContract:
    """A test of ranks for any kind of database; the fixture ``url`` names an empty one."""

    def test_the_rank_of_a_row_is_the_same_in_python_and_in_the_database(self, url: str) -> None:
        names = [(end, attempt, seconds) for end in ENDS for attempt in (1, 2, 10) for seconds in (0, 1)]
        rows = [
            a_row(run_status=e[0], marked=e[1], attempt=attempt, elapsed_s=seconds) for e, attempt, seconds in names
        ]
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
