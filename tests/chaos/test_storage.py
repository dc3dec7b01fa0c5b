"""A store that cannot be written, a disk that is full: for as long as it is wanted, and with nothing left behind."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from scalable import chaos
from scalable.quantities import Memory
from scalable.store import Fate, Row, open_store
from scalable.store.tables import results
from tests.waiting import until

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


def test_rows_that_come_while_the_store_is_blocked_are_there_afterwards(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'results.db'}"
    with open_store(url, patience_s=0.2, ask_again_s=0.2) as store:
        assert store.put([Row(run_key="1" * 32, name="first")]).fate is Fate.COMMITTED
        with chaos.blocked(tmp_path / "results.db"):
            receipt = store.submit([Row(run_key="2" * 32, name="second")])
            assert until(receipt.done)
            assert receipt.result().safe
        assert until(lambda: len(list(store.rows())) == 2)


def test_a_lock_ends_with_whoever_held_it(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with closing(sqlite3.connect(path)) as own:
        own.execute("CREATE TABLE results (run)")
        own.commit()
        code = (
            f"import sys; from scalable import chaos\nwith chaos.blocked({str(path)!r}): print(1, flush=True); input()"
        )
        with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "1\n"
            holder.kill()
        own.execute("INSERT INTO results VALUES (1)")
        own.commit()


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
