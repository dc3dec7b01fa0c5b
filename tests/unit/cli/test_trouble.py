"""Trouble in single lines, from the journal and the records that sessions write."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from scalable.cli.commands.status import looks_at
from scalable.cli.progress import StatusLine, Trouble, in_pipe, on_terminal, what
from scalable.observe.incidents import Incident, IncidentFolder
from scalable.observe.liveness import Follower
from tests.helpers.observe.builders import a_run, record, write

STUCK = Incident(
    "stuck",
    run="uni",
    found_after_s=0.3,
    threshold_s=5.0,
    guilty="Condition.wait in threading.py:327, called from jobs.py:20 (hang)",
)


def test_a_run_that_was_stuck_is_told_when_it_is_found_and_when_it_is_run_again(tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    IncidentFolder(folder.path).open(STUCK)
    trouble = Trouble(Follower(folder))
    assert trouble.new() == []
    about = {"id": 1, "incident": "stuck", "run": "uni", "text": STUCK.guilty}
    write(folder, [record("incident", 6, **about)])
    assert trouble.new() == ["incident 1: uni was stuck 5 s in jobs.py:20, killed; scalable incidents show 1"]
    write(folder, [record("retry", 66, run="uni", cause="stuck")])
    assert trouble.new() == ["1 retry: uni was stuck 5 s in jobs.py:20, killed, run again (incident 1)"]
    write(folder, [record("incident", 70, **about, outcome="retried: finished 4 s later")])
    assert trouble.new() == []
    write(folder, [record("retry", 80, run="other", cause="worker lost")])
    assert trouble.new() == ["2 retries: other is run again after: worker lost"]
    gone = IncidentFolder(folder.path).open(Incident("node lost", worker="w1", evidence={"jobs": ["uni", "other"]}))
    write(folder, [record("incident", 81, id=gone.id, incident="node lost", run="", worker="w1", text="node lost")])
    assert trouble.new() == ["incident 2: w1 is gone with 2 jobs: node lost; scalable incidents show 2"]
    write(folder, [record("retry", 82, run="other", cause="node lost")])
    assert trouble.new() == ["3 retries: other is run again after: node lost (incident 2)"]


def test_trouble_of_the_last_moment_is_shown_in_a_pipe_and_on_a_terminal(tmp_path: Path) -> None:
    folder = a_run(tmp_path, end=False)
    write(folder, [record("retry", 66, run="uni", cause="worker lost")])
    over = threading.Event()
    over.set()
    for show in (on_terminal, in_pipe):
        page = io.StringIO()
        screen = Console(file=page, width=100, force_terminal=show is on_terminal)
        where: Any = StatusLine(screen) if show is on_terminal else screen
        follower = Follower(folder)
        show(looks_at(follower), Trouble(follower), over, where)
        assert "! 1 retry: uni is run again after: worker lost" in page.getvalue()


def test_a_record_that_cannot_be_read_is_told_from_the_journal(tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    trouble = Trouble(Follower(folder))
    write(folder, [record("incident", 6, id=3, incident="stuck", run="uni", text="wait in jobs.py:20")])
    assert trouble.new() == ["incident 3: uni was stuck in jobs.py:20, killed; scalable incidents show 3"]


@pytest.mark.parametrize(
    ("incident", "line"),
    [
        (Incident("crashed", run="uni", guilty="SIGSEGV in fit (model.py:9)"), "uni crashed in model.py:9"),
        (Incident("fork refused", run="uni", guilty="fork in f (a/b.py:4)"), "uni was refused a fork in a/b.py:4"),
        (
            Incident("out of memory", run="uni", guilty="it used all", evidence={"limit": 300 << 20, "peak": 1 << 20}),
            "uni ran out of memory, killed; ask for memory: 512MiB (300 MiB is the limit now), "
            "or give each run less to do at once",
        ),
        (Incident("worker lost", run="uni"), "uni worker lost"),
    ],
)
def test_each_kind_has_its_words(incident: Incident, line: str) -> None:
    assert what(incident) == line


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    trouble = Trouble(Follower(folder))
    write(folder, [record("incident", 6, id=1, incident="crashed", run="fit DB_PASSWORD=correct-horse-battery")])
    [line] = trouble.new()
    assert "correct-horse" not in line
