"""A store that does not answer for a while: the sweep goes on, waits for it at the end, and nothing is lost.

Some seconds here; a whole minute where ``SCALABLE_KILLS`` asks for more than usual.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing

from scalable.store import SweepStatus, open_store
from tests.helpers.sweeps.faults.fixtures import Make
from tests.helpers.sweeps.faults.miniature import Miniature, Started, again, metrics, undisturbed, wait_for
from tests.tools.postgres import PrivatePostgres

LONG = int(os.environ.get("SCALABLE_KILLS", "6")) > 6
OUTAGE_S, NAP_S = (60.0, 3.0) if LONG else (0.0, 0.02)
IMPATIENT = """
    import functools, sys
    from scalable.sweeps import loading
    loading.open_store = functools.partial(loading.open_store, patience_s=0.1)
    from scalable.cli.main import main
    sys.exit(main(["run", "--sweep", "mini", "--format", "json"]))
"""


def check(mini: Miniature, started: Started) -> None:
    assert started.wait() == 0, started.said()
    rows = mini.rows()
    assert metrics(rows) == undisturbed(mini.compiled())
    assert again(mini.executed()) == 0, "what a store does is no reason to compute anything again"
    assert mini.unfinished() == []
    with open_store(mini.store_url) as store:
        assert [run.status for run in store.runs(mini.name)] == [SweepStatus.FINISHED]
        assert store.leases().list() == []


def test_a_server_that_is_stopped_and_started_again_costs_no_row(make: Make, own_postgres: PrivatePostgres) -> None:
    mini = make(store=own_postgres.new_place(), nap_s=NAP_S)
    started = mini.start()
    wait_for(lambda: len(mini.executed()) >= 3, "execution 3", started)
    own_postgres.stop(immediate=True)
    if LONG:
        time.sleep(OUTAGE_S)
        assert "its slot among the sweeps of its store is lost" in started.said()
    else:
        wait_for(lambda: "mini waits for its store" in started.said(), "a word about the store", started)
        assert "nothing listens there; start the server" in started.said()
    own_postgres.start()
    check(mini, started)


def test_rows_of_a_sweep_killed_while_its_server_was_down_are_not_computed_again(
    make: Make, own_postgres: PrivatePostgres
) -> None:
    mini = make(store=own_postgres.new_place(), nap_s=0.02)
    started = mini.start()
    wait_for(lambda: len(mini.executed()) >= 6, "execution 6", started)
    own_postgres.stop(immediate=True)
    wait_for(lambda: "mini waits for its store" in started.said(), "a word about the store", started)
    started.process.kill()
    started.wait()
    assert mini.gone()
    refused = mini.run()
    assert refused.process.returncode == 1
    assert "cannot be reached: nothing listens there; start the server" in refused.said()
    own_postgres.start()
    before = mini.executed()
    assert mini.run().process.returncode == 0
    assert metrics(mini.rows()) == undisturbed(mini.compiled())
    assert mini.executed() == before, "the rows were on this machine's disk"
    assert mini.unfinished() == []


def test_another_writer_that_blocks_the_database_costs_no_row(make: Make) -> None:
    mini = make(nap_s=0.02)
    started = mini.start(script=IMPATIENT)
    wait_for(lambda: len(mini.executed()) >= 6, "execution 6", started)
    with closing(sqlite3.connect(mini.folder / ".scalable" / "results.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        wait_for(lambda: "mini waits for its store" in started.said(), "a word about the store", started)
        assert "is locked by another writer; end that process, or wait for it" in started.said()
    check(mini, started)
