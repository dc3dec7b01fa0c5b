"""A store that cannot be written, a disk that is full: for as long as it is wanted, and with nothing left behind."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from scalable import chaos
from scalable.quantities import Memory
from scalable.store import Fate, Row, open_store
from scalable.store.tables import results
from tests.helpers.waiting import until

TAKEN = 64 << 20


def test_nobody_can_write_to_a_blocked_store_and_everybody_can_read(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with open_store(f"sqlite:///{path}") as store:
        assert store.put([Row(run_key="1" * 32, name="before")]).fate is Fate.COMMITTED
    with closing(sqlite3.connect(path, timeout=0)) as other:
        with chaos.blocked(path):
            assert other.execute(f"SELECT count(*) FROM {results.name}").fetchone() == (1,)
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute(f"DELETE FROM {results.name}")
        other.execute(f"DELETE FROM {results.name}")


def test_a_store_that_does_not_exist_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(chaos.ChaosError, match="no store"), chaos.blocked(tmp_path / "results.db"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_filled_disk_is_full_up_to_what_was_left_and_empty_afterwards(tmp_path: Path) -> None:
    before = shutil.disk_usage(tmp_path).free
    with chaos.filled(tmp_path, Memory(before - TAKEN)) as taken:
        assert taken.bytes <= 2 * TAKEN  # others write to this disk, too
        assert shutil.disk_usage(tmp_path).free < before - TAKEN // 2
        assert not list(tmp_path.iterdir())  # it has no name, so a kill cannot leave it behind
    assert until(lambda: shutil.disk_usage(tmp_path).free > before - TAKEN // 2)


def test_filling_too_much_or_leaving_too_little_is_refused(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    with (
        pytest.raises(chaos.ChaosError, match="more than 1 MiB; leave more free, or say --yes"),
        chaos.filled(tmp_path, Memory(free - TAKEN), most=Memory.parse("1MiB")),
    ):
        pass
    with pytest.raises(chaos.ChaosError, match="too little to leave free"), chaos.filled(tmp_path, Memory(0)):
        pass
    with pytest.raises(chaos.ChaosError, match="are free in"), chaos.filled(tmp_path, Memory(2 * free)):
        pass
