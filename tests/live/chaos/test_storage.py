"""A store that cannot be written, a disk that is full: for as long as it is wanted, and with nothing left behind."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from scalable import chaos
from scalable.store import Fate, Row, open_store
from tests.helpers.waiting import until


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
