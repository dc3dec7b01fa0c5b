"""How near a plan is to what happens once a sweep has run: predicted and actual time of a real sweep on this machine.

A workload of 24 cells, each of which keeps one core busy for 0.3 to 0.5 s, runs once so that there is something to
learn from, then again with other seeds. Every time the plan is made first. What else the machine does moves the actual
time, so the median of the rounds is what counts; "replayed" is a plan from the round's own durations, which that cannot
move.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from scalable.observe import RunFolder, RunView, read
from scalable.planning.front import Choice
from scalable.planning.history import History
from scalable.planning.plan import plan_sweep
from scalable.session.machine import history
from scalable.session.session import ScalableSession

ROUNDS = 3
GOAL = 0.15  # part by which the plan may be off
CODE = '''
import time

def burn(asset, variant, fold, seed):
    """Busy for a time that differs by cell, whatever else the machine does."""
    until = time.process_time() + 0.26 + 0.02 * fold + 0.04 * len(asset) + 0.02 * variant
    number = seed
    while time.process_time() < until:
        number = (number * 1103515245 + 12345) % 2**31
    return {"score": float(number)}
'''
MANIFEST = """version: 1
project: {{name: learning}}
targets: {{here: {{provider: local, max_workers: 2, processes: true}}}}
sweeps:
  burn: {{factor: size, variants: [1, 2], assets: [A, BB, CCC], folds: 4, run: "burning:burn", seed: {seed}}}
"""


def measure() -> dict[str, Any]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="scalable-bench-") as folder:
        os.chdir(folder)
        try:
            Path("burning.py").write_text(CODE, encoding="utf-8")
            guessed = turn(0)
            rounds = [turn(1 + number) for number in range(ROUNDS)]
        finally:
            os.chdir(before)
    off, replayed = ([abs(one[what] / one["actual s"] - 1) for one in rounds] for what in ("planned s", "replayed s"))
    return {
        "before anything was measured": guessed,
        **{f"round {number}": one for number, one in enumerate(rounds, 1)},
        "off by, median": statistics.median(off),
        "off by, worst": max(off),
        "replayed off by, worst": max(replayed),
        "goal": GOAL,
    }


def turn(seed: int) -> dict[str, float]:
    """Plan, run and compare, start-up included."""
    Path("scalable.yaml").write_text(MANIFEST.format(seed=seed), encoding="utf-8")
    session = ScalableSession.from_yaml("scalable.yaml")
    plan = session.plan_sweep("burn")
    assert session.run_sweep("burn", plan).complete
    view = RunView.of(read(RunFolder.find(session.folder.run_id).journal))
    assert view.work_began is not None
    assert view.work_ended is not None
    worked = view.work_ended - view.work_began
    started = view.startup_s or 0.0
    again = plan_sweep(session.site(), "burn", Choice(), of_the_latest(history())).wall_s + started
    return {"planned s": plan.total_s, "actual s": started + worked, "replayed s": again}


def of_the_latest(known: History) -> History:
    """What the latest sweep alone measured."""
    return replace(
        known, units={name: tuple(replace(one, means=()) for one in found) for name, found in known.units.items()}
    )
