"""A sweep run asset by asset by several processes: one place for all, each row once, no attempt too many."""

from __future__ import annotations

import pytest

from scalable.engine.events import SweepKind
from scalable.errors import UnknownNameError
from scalable.session.slots import Slot, give_back
from scalable.store import open_store
from tests.helpers.session.shared_places import HOLDER, STORE, sweeps
from tests.helpers.session.sweeps import Sweeps

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
