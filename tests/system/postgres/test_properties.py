"""Whatever rows come: a server gives them back as they were, and ranks them as Python does."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalable.store import Fate, Row, open_store
from tests.helpers.store.properties import RankContract, any_rows
from tests.tools.postgres import PrivatePostgres


class TestPostgresql(RankContract):
    """The place that ``url`` names."""


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(any_rows, min_size=1, max_size=20, unique_by=lambda row: row.run_key))
def test_every_row_comes_back_from_a_server_as_it_was(
    postgres: PrivatePostgres, server_url: str, rows: list[Row]
) -> None:
    with open_store(server_url) as store:
        postgres.execute("TRUNCATE scalable_rows", server_url)
        assert store.put(rows).fate is Fate.COMMITTED
        assert {row.run_key: row for row in store.rows()} == {row.run_key: row for row in rows}
