"""Dead letters of a store on a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalable.store import Fate, RowStatus, open_store
from scalable.testing.store import a_row, key
from tests.helpers.store.dead_letters import DeadLetterContract
from tests.tools.postgres import PrivatePostgres


class TestPostgresql(DeadLetterContract):
    """The place that ``url`` names."""


def test_a_character_that_an_old_servers_encoding_lacks_costs_only_its_own_row(
    postgres: PrivatePostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    postgres.execute("CREATE DATABASE old ENCODING 'LATIN1' TEMPLATE template0")
    with open_store(postgres.url("old")) as store:
        receipt = store.put(
            [a_row("ü", axes={"asset": "ü"}), a_row("漢", axes={"asset": "漢"}), a_row("fine", metrics={"name": "漢"})]
        )
        assert (receipt.fate, receipt.dead) == (Fate.SET_ASIDE, 1)
        assert "make the database with ENCODING 'UTF8'" in receipt.reason
        assert {row.axes["asset"] for row in store.rows()} == {"ü", "AAVEUSDC"}
        assert store.keys() == {key("ü"), key("fine")}
        assert [row.run_status for row in store.rows()] == [RowStatus.FINISHED] * 2
