"""What others may read of an engine."""

from __future__ import annotations

import re

import pytest

from scalable.engine.events import Paused
from tests.helpers.engine.builders import a_world
from tests.helpers.paths import ROOT

SOURCES = ROOT / "src" / "scalable"
READS_THE_STATE = re.compile(r"\bengine\._?state\b|\bview\._state\b|\bengine import .*\bstate\b")


@pytest.mark.parametrize(
    "line",
    [
        "self.driver.engine.state.paused",
        "engine.view._state",
        "from scalable.engine import events, state",
        "from scalable.engine.state import JobRecord",
    ],
)
def test_a_line_that_reads_the_state_is_noticed(line: str) -> None:
    assert READS_THE_STATE.search(line)


def test_nobody_outside_the_engine_reads_its_state() -> None:
    others = [path for path in SOURCES.rglob("*.py") if not path.is_relative_to(SOURCES / "engine")]
    assert SOURCES / "session" / "driver" / "driver.py" in others
    assert [path for path in others if READS_THE_STATE.search(path.read_text(encoding="utf-8"))] == []


def test_the_view_shows_the_engine_as_it_is_now() -> None:
    world = a_world()
    view = world.engine.view
    world.with_sweep("s", 3).with_workers(1)
    world.happens(Paused("lunch"))
    assert view.paused == "lunch"
    assert set(view.jobs) == {"s/1", "s/2", "s/3"}
    assert view.jobs["s/1"].worker in view.workers
    assert (view.tags["standard"].workers, view.tags["standard"].queued) == (1, 2)
