"""Places on a server with tables of earlier versions keep everything, the old tables too, when they are changed."""

from __future__ import annotations

import pytest

from scalable.store import open_store
from scalable.store.urls import location_of
from scalable.testing.store import a_row
from tests.helpers.store.earlier import KilledUpgradeContract, UpgradeContract, a_place, asking
from tests.tools.postgres import PrivatePostgres


@pytest.fixture
def left(server_url: str) -> str:
    a_place(server_url, location_of(server_url).beside)
    return server_url


class TestPostgresql(UpgradeContract, KilledUpgradeContract):
    """The place that ``left`` names."""

    seen = "server.json"


def test_the_old_tables_are_kept_under_another_name(left: str, caplog: pytest.LogCaptureFixture) -> None:
    ask = asking(left)
    open_store(left).close()
    assert all(f"kept as {name}_version_4" in caplog.text for name in ("finetune_results", "finetune_runs"))
    assert ask("SELECT count(*), max(fold) FROM finetune_results_version_4") == [(25, 4)]
    assert ask("SELECT count(*) FROM finetune_runs_version_4") == [(2,)]


def test_columns_have_the_types_they_had(left: str) -> None:
    ask = asking(left)
    columns = (
        "SELECT table_name, column_name, data_type, collation_name FROM information_schema.columns "
        "WHERE table_schema = current_schema() AND table_name IN ('finetune_results', 'finetune_runs') ORDER BY 1, 2"
    )
    before = ask(columns)
    open_store(left).close()
    assert ask(columns) == before


def test_rights_and_views_of_others_follow_the_rows(postgres: PrivatePostgres, left: str) -> None:
    ask = asking(left)
    reader, writer = f"reader_{postgres.port}_{id(left)}", f"writer_{postgres.port}_{id(left)}"
    for role, rights in ((reader, "SELECT"), (writer, "SELECT, INSERT, UPDATE")):
        ask(f"CREATE ROLE {role}")
        ask(f"GRANT {rights} ON finetune_results TO {role}")
    ask("CREATE VIEW mine AS SELECT asset, cost_bps, fold, buys FROM finetune_results WHERE variant = 'isotonic'")
    with open_store(left) as store:
        store.put([a_row(axes={"asset": "new"}, metrics={"buys": 5.0})])
        assert ("new", 10.0, 0, 5) in ask("SELECT * FROM mine")
    rights_of = (
        "SELECT table_name, privilege_type FROM information_schema.role_table_grants "
        "WHERE table_schema = current_schema() AND grantee = '{}' AND table_name NOT LIKE '%version_4' ORDER BY 1, 2"
    )
    assert ask(rights_of.format(reader)) == [("finetune_results", "SELECT"), ("scalable_rows", "SELECT")]
    assert ask(rights_of.format(writer)) == [
        ("finetune_results", "SELECT"), ("scalable_rows", "INSERT"), ("scalable_rows", "SELECT"),
        ("scalable_rows", "UPDATE"),
    ]  # fmt: skip
