"""Sweeps from several shells on one store: two at once, a heavy one alone, in the order they came, and none for ever.

A sweep runs until its file ``hold`` is gone, so who runs with whom is no question of time. Places are lost sooner than
usual, so that nobody waits half a minute for the dead.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from scalable import chaos
from scalable.store import open_store
from tests.helpers.sweeps.faults.fixtures import Make
from tests.helpers.sweeps.faults.miniature import Miniature, Started, again, metrics, undisturbed, wait_for
from tests.tools.postgres import PrivatePostgres

LIFE_S = 6.0  # long enough for a busy machine to be heard of
SHORT_LIVED = f"""
    import functools, sys
    from scalable.sweeps import loading
    from scalable.session.sweep import slots
    slots.LIFE_S, slots.ASK_EVERY_S = {LIFE_S}, 0.1
    loading.open_store = functools.partial(loading.open_store, patience_s=0.5, ask_again_s=0.5)
    from scalable.cli.main import main
    sys.exit(main(["run", "--sweep", sys.argv[1], "--format", "json"]))
"""
SMALL = {"cpu": 1, "memory": "1GiB"}
NARROW = {"cpu": 1, "memory": "300MiB"}
SECTIONS = {
    "targets": {"here": {"provider": "local", "max_workers": 1}},
    "profiles": {
        "narrow": {"request": NARROW, "limit": NARROW},
        "solo": {"request": SMALL, "limit": SMALL, "alone": True},
    },
    "policies": {"concurrency": {"normal": 2}, "retry": {"delay": "0s"}},
}
ONE_ROW = {"variants": [1], "assets": ["A"], "folds": 1, "costs_bps": [1]}


class Shell:
    """One sweep, started from a shell of its own."""

    def __init__(self, mini: Miniature) -> None:
        self.mini = mini
        self.hold = mini.folder / "hold"
        self.hold.touch()
        self.started: Started | None = None

    def start(self) -> Shell:
        self.started = self.mini.start(self.mini.name, script=SHORT_LIVED)
        return self

    @property
    def running(self) -> bool:
        return bool(self.mini.executed())

    def runs(self) -> None:
        wait_for(lambda: self.running, f"{self.mini.name} running", self.started)

    def waits(self, why: str) -> None:
        assert self.started is not None
        wait_for(lambda: why in self.said(), f"{self.mini.name} waiting: {why}", self.started)
        assert not self.running and self.mini.run_folders() == [], "it may not start anybody while it waits"

    def said(self) -> str:
        assert self.started is not None
        return self.started.said()

    def ends(self) -> None:
        assert self.started is not None
        self.hold.unlink(missing_ok=True)
        assert self.started.wait() == 0, self.said()
        assert metrics(self.mini.rows()) == undisturbed(self.mini.compiled())


def shell(make: Make, place: str, name: str, **sweep: Any) -> Shell:
    open_store(place).close()  # to fill a new one may take longer on a busy machine than these shells wait for others
    return Shell(make(store=place, name=name, sections=SECTIONS, sweep={**ONE_ROW, **sweep}, nap_s=0.0))


def test_what_must_climb_to_a_profile_that_runs_alone_gives_its_place_back(make: Make, tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/shared.db"
    first = shell(make, place, "first").start()
    first.runs()
    grows = shell(make, place, "grows", profile="narrow")
    (grows.mini.folder / "grow").write_text("400000000")
    grows.hold.unlink()
    grows.start()
    wait_for(lambda: "it waits until heavy work may run" in grows.said(), "giving its slot back", grows.started)
    before = grows.mini.executed()
    last = shell(make, place, "last").start()
    last.waits("last waits: grows (")
    assert grows.mini.executed() == before, "nothing may start while another sweep runs"
    with open_store(place) as store:
        assert [(one.name, one.kind, one.held) for one in store.leases().list()] == [
            ("first", "normal", True), ("grows", "heavy", False), ("last", "normal", False)
        ]  # fmt: skip
    first.ends()
    grows.ends()
    last.ends()
    assert [row.attempt for row in grows.mini.rows().values()] == [2]


def test_two_run_a_third_waits_and_a_heavy_one_runs_alone_whoever_came_later(make: Make, tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/shared.db"
    first, second = shell(make, place, "first").start(), shell(make, place, "second").start()
    first.runs()
    second.runs()
    heavy = shell(make, place, "heavy", profile="solo").start()
    heavy.waits("heavy waits: a heavy sweep runs alone; ")
    last = shell(make, place, "last").start()
    last.waits("last waits: heavy (")
    first.ends()
    assert not last.running and not heavy.running
    second.ends()
    heavy.runs()
    last.waits("last waits: the heavy sweep heavy (")
    heavy.ends()
    last.runs()
    last.ends()
    with open_store(place) as store:
        assert store.leases().list() == []


@pytest.mark.parametrize("kind", [pytest.param("sqlite", marks=pytest.mark.long), "postgresql"])
def test_a_third_waits_until_the_place_of_one_that_was_killed_is_free(
    make: Make, tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    place = f"sqlite:///{tmp_path}/shared.db"
    if kind == "postgresql":
        server: PrivatePostgres = request.getfixturevalue("postgres")
        place = server.new_place()
    first, second = shell(make, place, "first").start(), shell(make, place, "second").start()
    first.runs()
    second.runs()
    third = shell(make, place, "third").start()
    third.waits("third waits: at most 2 sweeps run at once: ")
    assert second.started is not None
    second.started.process.kill()
    second.started.wait()
    third.runs()
    assert first.started is not None and first.started.process.poll() is None, "it went on all the time"
    third.ends()
    first.ends()


def test_one_that_was_frozen_and_lost_its_place_waits_for_who_has_it_now(make: Make, tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/shared.db"
    frozen = shell(make, place, "frozen", folds=2).start()
    frozen.runs()
    assert frozen.started is not None
    with chaos.stopped(frozen.started.process.pid):
        heavy = shell(make, place, "heavy", profile="solo").start()
        heavy.runs()
    wait_for(lambda: "frozen waits: its slot among the sweeps" in frozen.said(), "a word about it", frozen.started)
    begun = frozen.mini.executed()
    frozen.hold.unlink()
    heavy.ends()
    frozen.ends()
    assert begun == ["table-A", "fitted-A-1-0"] and again(frozen.mini.executed()) == 0


def test_the_same_sweep_from_two_shells_is_computed_once(make: Make) -> None:
    mini = make(sections={"targets": SECTIONS["targets"]})
    started = [mini.start(), mini.start()]
    assert [one.wait() for one in started] == [0, 0], [one.said() for one in started]
    assert metrics(mini.rows()) == undisturbed(mini.compiled())
    assert again([one for one in mini.executed() if not one.startswith("row-")]) == 0
    assert mini.unfinished() == []


@contextmanager
def unreachable(place: str, server: PrivatePostgres | None) -> Iterator[None]:
    """Nobody can write to the store."""
    if server is not None:
        server.stop(immediate=True)
        yield
        server.start()
        return
    with closing(sqlite3.connect(place.removeprefix("sqlite:///"), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_sweep_that_cannot_reach_the_store_starts_nothing_more_until_it_can(
    make: Make, tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    server: PrivatePostgres | None = request.getfixturevalue("own_postgres") if kind == "postgresql" else None
    place = server.new_place() if server else f"sqlite:///{tmp_path}/shared.db"
    own = Shell(make(store=place, sections=SECTIONS, sweep={"assets": ["A"]}, nap_s=0.0)).start()
    wait_for(lambda: len(own.mini.executed()) == 2, "the first unit at work", own.started)
    with unreachable(place, server):
        wait_for(lambda: "mini waits: its slot among the sweeps" in own.said(), "a word about it", own.started)
        own.hold.unlink()
        wait_for(lambda: len(own.mini.executed()) >= 4, "the end of the first unit", own.started)
        time.sleep(1.0)
        assert len(own.mini.executed()) == 4, "a table, a fit and two rows of the unit that was at work, and no more"
    own.ends()
    assert again(own.mini.executed()) == 0
