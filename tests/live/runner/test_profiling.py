"""Flame graphs of real processes, and the words for those of which there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalable.errors import ScalableError
from tests.helpers.runner.profiling import graph
from tests.helpers.runner.programs import program

SAY = "import os, time; print('ready', flush=True)\n"

BUSY = SAY + "def burn():\n    while True: pass\nburn()\n"


def test_a_flame_graph_shows_the_function_that_is_busy_without_its_secrets(tmp_path: Path) -> None:
    with program(BUSY, "--token", "hunter2", folder=tmp_path) as it:
        drawn = graph(it.pid)
        assert it.process.poll() is None
    assert "<svg" in drawn
    assert "burn (work.py" in drawn
    assert "hunter2" not in drawn


def test_children_are_in_it(tmp_path: Path) -> None:
    code = SAY + "def child():\n    while True: pass\nif os.fork() == 0: child()\ntime.sleep(600)\n"
    with program(code, folder=tmp_path) as it:
        assert "child (work.py" in graph(it.pid)


def test_a_process_that_ends_meanwhile_is_shown_until_then(tmp_path: Path) -> None:
    code = SAY + "def burn():\n    until = time.monotonic() + 1.5\n    while time.monotonic() < until: pass\nburn()\n"
    with program(code, folder=tmp_path) as it:
        assert "burn (work.py" in graph(it.pid, 20)


def test_a_process_that_only_waits_or_has_ended_is_told_of(tmp_path: Path) -> None:
    with (
        program(SAY + "time.sleep(600)", folder=tmp_path) as it,
        pytest.raises(ScalableError, match="only waited for 1 s"),
    ):
        graph(it.pid)
    with program(SAY) as it:
        it.process.wait()
        with pytest.raises(ScalableError, match=f"process {it.pid} has ended"):
            graph(it.pid)
