"""A sweep run asset by asset by several processes: one place for all, each row once, no attempt too many."""

from __future__ import annotations

import pytest

from scalable.engine.events import SweepKind
from scalable.session.slots import LOST, Slot, give_back
from scalable.store import RowStatus, open_store
from tests.helpers.session.shared_places import HOLDER, STORE, sweeps
from tests.helpers.session.sweeps import Sweeps
from tests.helpers.waiting import until

__all__ = ["sweeps"]


def test_an_asset_alone_is_complete_with_its_rows_and_all_assets_are_the_sweep(sweeps: Sweeps) -> None:
    alone = sweeps.session().run_sweep("trial", asset="BB")
    assert alone.complete and alone.expected == alone.computed == 8
    assert {row.asset for row in sweeps.rows()} == {"BB"}
    assert sweeps.grid() == 2 * "----dddd----"
    whole = sweeps.run()
    assert whole.complete and whole.expected == 24 and whole.computed == 16
    assert sweeps.grid() == 2 * "ddddttttdddd"


def test_a_place_that_is_lost_is_told_to_the_driver_and_had_again_whatever_becomes_of_those_who_are_told(
    sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: str) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("scalable.session.slots.BEATS_PER_LIFE", 100)
    monkeypatch.setattr("scalable.session.slots.ASK_EVERY_S", 0.05)
    heard: list[str] = []
    with open_store(STORE) as store, Slot(store, "mine", SweepKind.NORMAL, 1, broken) as place:
        place.on_change = heard.append
        with monkeypatch.context() as others:
            others.setattr(place, "decide", lambda *_: "another sweep has it")
            place.ticket.release()
            assert until(lambda: heard) == [LOST]
        assert until(lambda: heard[1:]) == [""]


def test_a_driver_that_is_started_again_computes_what_is_missing_and_adds_no_attempts(sweeps: Sweeps) -> None:
    blocker = sweeps.project.folder / "break-2-1"
    blocker.touch()
    first = sweeps.session(variants=[2]).run_sweep("trial", asset="A", holder=HOLDER)
    assert len(first.failed) == 2 and first.finished == 2
    blocker.unlink()
    with open_store(STORE) as store:
        [doubted] = [row.run_key for row in sweeps.rows() if row.finished and row.cost_bps == 1]
        assert store.mark_failed([doubted], "a person says so") == 1
    again = sweeps.session().run_sweep("trial", asset="A", holder=HOLDER)
    assert again.computed == 5 and again.failed == first.failed, "what was missing or marked, not what had failed"
    assert [row.attempt for row in sweeps.rows() if row.run_status is RowStatus.FAILED] == [1, 1]
    with open_store(STORE) as store:
        assert [(one.holder, one.held) for one in store.leases().list()] == [(HOLDER, True)]
        give_back(store, "trial", SweepKind.NORMAL, HOLDER)
    other = sweeps.session().run_sweep("trial", asset="A", holder="dag run 2")
    assert other.complete and other.computed == 2
