"""Runs that are replayed: the engine decides again as it did, and a simulation with what was measured ends as they did.

``RECORD_AGAIN=1 python -m pytest tests/unit/session/test_replay.py`` replaces the recorded runs in tests/data/recorded.
"""

from __future__ import annotations

import os
from pathlib import Path
from shutil import copyfile

import pytest

from scalable.observe.reading import read
from scalable.planning.replay import Recording, Replay, replay
from tests.helpers.session.builders import Project
from tests.helpers.session.recorded import RECORDED, RUNS, record
from tests.helpers.session.virtual import World


def replayed(path: Path) -> Replay:
    return replay(Recording.of(read(path)))


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_decided_again_as_it_was(name: str, project: Project, world: World) -> None:
    events = record(name, project, world).events
    found = replayed(events)
    assert found.difference is None
    assert found.simulated is not None
    assert abs(found.simulated.off) <= 0.05
    if os.environ.get("RECORD_AGAIN"):
        copyfile(events, RECORDED / f"{name}.jsonl")
