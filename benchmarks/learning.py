"""How near a plan is to what happens: with a pilot, in the second run, and in the fifth, on three sweeps.

The plan may be off by 25 % in round 1, 15 % in round 2 and 5 % in round 5, on a machine that does nothing else.

The sweeps are the calibration example, the ablation example, and ``burn``: 24 cells, each of which keeps one core busy
for 0.3 to 0.5 s. Each starts with nothing known, runs its pilot, and is then planned and run five times from what was
learned alone: rows and artefacts are removed before every run. What else the machine does moves the actual time, and
the CPU seconds of the same jobs say by how much; "replayed" is a plan from the round's own durations, which that cannot
move.
"""

from __future__ import annotations

import os
import shutil
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

EXAMPLES = Path(__file__).parent.parent / "examples"
ROUNDS = 5
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
project: {name: learning}
targets: {here: {provider: local, max_workers: 2, processes: true}}
sweeps:
  burn: {factor: size, variants: [1, 2], assets: [A, BB, CCC], folds: 4, run: "burning:burn"}
"""


def burn() -> dict[str, Any]:
    return {"burn": rounds_of("burn")}


def ablation() -> dict[str, Any]:
    return {"ablation": rounds_of("scaler", EXAMPLES / "ablation")}


def calibration() -> dict[str, Any]:
    return {"calibration": rounds_of("calibration", EXAMPLES / "calibration")}


def rounds_of(sweep: str, example: Path | None = None) -> dict[str, Any]:
    """Plan and run one sweep again and again in a folder of its own."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="scalable-bench-") as folder:
        os.chdir(folder)
        try:
            if example is not None:
                shutil.copytree(example, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".scalable"))
            else:
                Path("burning.py").write_text(CODE, encoding="utf-8")
                Path("scalable.yaml").write_text(MANIFEST, encoding="utf-8")
            guessed = ScalableSession.from_yaml("scalable.yaml").plan_sweep(sweep)
            pilot = ScalableSession.from_yaml("scalable.yaml").run_pilot(sweep)
            rounds = {f"round {number}": turn(sweep) for number in range(1, ROUNDS + 1)}
        finally:
            os.chdir(before)
    return {"planned without a pilot s": guessed.total_s, "pilot s": pilot.seconds, **rounds}


def turn(sweep: str) -> dict[str, float]:
    """Plan, run and compare, start-up included."""
    Path(".scalable/results.db").unlink(missing_ok=True)
    shutil.rmtree(".scalable/artefacts", ignore_errors=True)
    session = ScalableSession.from_yaml("scalable.yaml")
    plan = session.plan_sweep(sweep)
    assert session.run_sweep(sweep, plan).complete
    records = list(read(RunFolder.find(session.folder.run_id).journal))
    cpu_s = sum(record["cpu_s"] or 0.0 for record in records if record["kind"] == "attempt-ended")
    view = RunView.of(records)
    assert view.work_began is not None
    assert view.work_ended is not None
    started = view.startup_s or 0.0
    actual = started + view.work_ended - view.work_began
    again = plan_sweep(session.site(), sweep, Choice(), of_the_latest(history())).wall_s + started
    off, replayed = plan.total_s / actual - 1, again / actual - 1
    return {
        "planned s": plan.total_s, "actual s": actual, "CPU of jobs s": cpu_s, "off by": off,
        "replayed off by": replayed,
    }  # fmt: skip


def of_the_latest(known: History) -> History:
    """What the latest sweep alone measured."""
    return replace(
        known, units={name: tuple(replace(one, means=()) for one in found) for name, found in known.units.items()}
    )
