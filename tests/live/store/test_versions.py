"""Processes that bring an old file up to date are killed, or are several at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.store.earlier import KilledUpgradeContract, a_file


class TestSqlite(KilledUpgradeContract):
    """The file that ``left`` names."""

    @pytest.fixture
    def left(self, tmp_path: Path) -> str:
        return a_file(tmp_path / "results.db")
