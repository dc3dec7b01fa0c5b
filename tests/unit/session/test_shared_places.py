"""A sweep run asset by asset by several processes: one place for all, each row once, no attempt too many."""

from __future__ import annotations

import pytest

from scalable.engine.events import SweepKind
from scalable.errors import UnknownNameError
from scalable.session.sweep.slots import Slot, give_back
from scalable.store import RowStatus, open_store
from tests.helpers.session.shared_places import HOLDER, STORE, sweeps
from tests.helpers.session.sweeps import Sweeps

pytestmark = pytest.mark.usefixtures("world")


__all__ = ["sweeps"]


def test_an_asset_that_the_sweep_lacks_is_refused_with_those_it_has(sweeps: Sweeps) -> None:
    with pytest.raises(UnknownNameError, match=r"sweeps\.trial: asset 'B' is not defined; known: A, BB, CCC"):
        sweeps.session().run_sweep("trial", asset="B")


def test_runs_of_one_holder_are_one_sweep_to_others_and_leave_its_place_to_it(sweeps: Sweeps) -> None:
    with open_store(STORE) as store:
        with Slot(store, "other", SweepKind.NORMAL, 1, print, HOLDER):
            pass
        [held] = store.leases().list()
        assert held.held and held.holder == HOLDER and held.expires - held.heartbeat > 600
        with Slot(store, "other", SweepKind.NORMAL, 1, print, HOLDER) as again:
            assert not again.waited
        assert [one.id for one in store.leases().list()] == [held.id]
        give_back(store, "other", SweepKind.NORMAL, HOLDER)
        assert store.leases().list() == []


def test_who_gives_up_waiting_stands_in_line_no_more_and_takes_nothing_from_others_of_its_holder(
    sweeps: Sweeps,
) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    with open_store(STORE) as store:
        with Slot(store, "first", SweepKind.NORMAL, 1, print):
            waiting = Slot(store, "other", SweepKind.NORMAL, 1, interrupted, HOLDER)
            with pytest.raises(KeyboardInterrupt):
                waiting.__enter__()
            assert [one.name for one in store.leases().list()] == ["first"]
        late = Slot(store, "other", SweepKind.NORMAL, 1, print, HOLDER)
        with Slot(store, "other", SweepKind.NORMAL, 1, print, HOLDER):
            late.give_up()
            assert [(one.name, one.held) for one in store.leases().list()] == [("other", True)]


def test_an_asset_alone_is_complete_with_its_rows_and_all_assets_are_the_sweep(sweeps: Sweeps) -> None:
    alone = sweeps.session().run_sweep("trial", asset="BB")
    assert alone.complete and alone.expected == alone.computed == 8
    assert {row.axes["asset"] for row in sweeps.rows()} == {"BB"}
    assert sweeps.grid() == 2 * "----dddd----"
    whole = sweeps.run()
    assert whole.complete and whole.expected == 24 and whole.computed == 16
    assert sweeps.grid() == 2 * "ddddttttdddd"


def test_a_run_of_the_whole_sweep_ends_the_place_of_its_holder_unless_it_is_interrupted(sweeps: Sweeps) -> None:
    with open_store(STORE) as store:
        for error, left in ((KeyboardInterrupt, 1), (ValueError, 0)):
            with pytest.raises(error), Slot(store, "trial", SweepKind.NORMAL, 1, print, HOLDER, whole=True):
                raise error
            assert len(store.leases().list()) == left
        assert sweeps.session().run_sweep("trial", holder=HOLDER).complete
        assert store.leases().list() == []


def test_a_driver_that_is_started_again_computes_what_is_missing_and_adds_no_attempts(sweeps: Sweeps) -> None:
    blocker = sweeps.project.folder / "break-2-1"
    blocker.touch()
    first = sweeps.session(variants=[2]).run_sweep("trial", asset="A", holder=HOLDER)
    assert len(first.failed) == 2 and first.finished == 2
    blocker.unlink()
    with open_store(STORE) as store:
        [doubted] = [row.run_key for row in sweeps.rows() if row.finished and row.axes["cost_bps"] == 1]
        assert store.mark_failed([doubted], "a person says so") == 1
    again = sweeps.session().run_sweep("trial", asset="A", holder=HOLDER)
    assert again.computed == 5 and again.failed == first.failed, "what was missing or marked, not what had failed"
    assert [row.attempt for row in sweeps.rows() if row.run_status is RowStatus.FAILED] == [1, 1]
    with open_store(STORE) as store:
        assert [(one.holder, one.held) for one in store.leases().list()] == [(HOLDER, True)]
        give_back(store, "trial", SweepKind.NORMAL, HOLDER)
    other = sweeps.session().run_sweep("trial", asset="A", holder="dag run 2")
    assert other.complete and other.computed == 2
