"""Sessions that are replayed: the engine decides again as it did, and a simulation with their times ends as they did.

``RECORD_AGAIN=1 python -m pytest tests/unit/session/test_replay.py`` replaces the recorded runs in tests/data/recorded.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest

from scalable.observe.journal import Records, read
from scalable.planning.replay import Recording, replay
from tests.helpers.session.builders import Project
from tests.helpers.session.recorded import RECORDED, RUNS, record
from tests.helpers.session.virtual import World

HAPPENED: dict[str, tuple[str, dict[str, Any]]] = {
    "sweep": ("sweep-ended", {"complete": True}),
    "climb": ("start-job", {"worker": "large-2", "attempt": 2}),
    "stuck-job": ("kill-job", {"job": "hang", "cause": "stuck"}),
    "lost-worker": ("worker-lost", {"worker": "demeter-0", "cause": "worker lost"}),
    "budget-stop": ("kill-job", {"job": "four", "cause": "stopped"}),
    "pause": ("outside-work", {"busy": ["demeter-0"]}),
}
"""An event or instruction without which a run would not be what its name says."""
OF_A_MACHINE = re.compile(r"/\w+/|\b\d{1,3}(\.\d{1,3}){3}\b|@")  # paths, addresses, accounts


def assert_replays(path: Path, name: str) -> None:
    records = list(read(path))
    kind, fields = HAPPENED[name]
    events = [(one["kind"], one) for one in records]
    events += [item for one in records for instruction in one.get("out", ()) for item in instruction.items()]
    assert any(found == kind and fields.items() <= facts.items() for found, facts in events)
    found = replay(Recording.of(records))
    assert found.difference is None
    assert found.simulated is not None
    assert abs(found.simulated.off) <= 0.05


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_decided_again_as_it_was(name: str, project: Project, world: World) -> None:
    events = record(name, project, world).events
    assert_replays(events, name)
    if os.environ.get("RECORD_AGAIN"):
        copyfile(events, RECORDED / f"{name}.jsonl")


@pytest.mark.parametrize("name", RUNS)
def test_a_run_of_an_earlier_version_is_decided_as_it_was(name: str) -> None:
    """If this fails because the engine is meant to decide otherwise now, record the runs again."""
    assert_replays(RECORDED / f"{name}.jsonl", name)


@pytest.mark.parametrize("name", RUNS)
def test_a_recorded_run_says_nothing_of_the_machine_it_ran_on(name: str) -> None:
    path = RECORDED / f"{name}.jsonl"
    assert not OF_A_MACHINE.search(path.read_text(encoding="utf-8"))
    assert path.stat().st_size < 20_000


def test_a_session_that_is_killed_leaves_what_it_was_told_so_far(project: Project, world: World) -> None:
    """Nothing is kept back for the end: what was decided is written within a fraction of a second."""
    folder = record("lost-worker", project, world)
    lines = folder.events.read_bytes().splitlines(keepends=True)
    folder.events.write_bytes(b"".join(lines[:20]) + lines[20][:10])
    records: Records = read(folder.events)
    found = replay(Recording.of(records))
    assert (found.same, found.events) == (True, 19)
    assert records.torn
    assert found.why_not.endswith("jobs had not ended when the record ends")
