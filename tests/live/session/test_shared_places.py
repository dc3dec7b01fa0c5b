"""A sweep run asset by asset by several processes: one place for all, each row once, no attempt too many."""

from __future__ import annotations

import pytest

from scalable.engine.events import SweepKind
from scalable.session.sweep.slots import LOST, Slot
from scalable.store import open_store
from tests.helpers.session.shared_places import STORE, sweeps
from tests.helpers.session.sweeps import Sweeps
from tests.helpers.waiting import until

__all__ = ["sweeps"]


def test_a_place_that_is_lost_is_told_to_the_driver_and_had_again_whatever_becomes_of_those_who_are_told(
    sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: str) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("scalable.session.sweep.slots.BEATS_PER_LIFE", 100)
    monkeypatch.setattr("scalable.session.sweep.slots.ASK_EVERY_S", 0.05)
    heard: list[str] = []
    with open_store(STORE) as store, Slot(store, "mine", SweepKind.NORMAL, 1, broken) as place:
        place.on_change = heard.append
        with monkeypatch.context() as others:
            others.setattr(place, "decide", lambda *_: "another sweep has it")
            place.ticket.release()
            assert until(lambda: heard) == [LOST]
        assert until(lambda: heard[1:]) == [""]
