"""Planning and start-up: every figure beside its goal, start-up beside ``import dask`` in the same run."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples/ftf/scalable.yaml"
STARTS = 7  # processes started for one median

ASSETS = ", ".join(f"A{number}" for number in range(500))
LARGE = f"""
version: 1
project:
  name: large
nodes:
  M: {{cpu: 16, memory: 64GiB, price: 0.1644 EUR/h}}
pools:
  compute: {{node: M, min: 0, max: 1000}}
sweeps:
  large:
    factor: my_factor
    run: my_package.my_module:my_function
    variants: [a, b, c, d, e, f, g, h, i, j]
    assets: [{ASSETS}]
    folds: 20
    costs_bps: [10]
    run_minutes: 3.5
"""


def seconds(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def in_process(code: str) -> tuple[float, dict[str, Any]]:
    """Run code in a fresh interpreter; it prints a JSON object. Returns its wall time and that object."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    return time.perf_counter() - start, json.loads(done.stdout or "{}")


def start_up(arguments: list[str]) -> float:
    """Median seconds to start a process and see it end."""
    times = []
    for _ in range(STARTS):
        begin = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def five_factors() -> dict[str, Any]:
    from scalable import Site, load_file, plan_all

    loaded = load_file(EXAMPLE, env=os.environ)
    site = Site(loaded.manifest, loaded.target)
    campaign = plan_all(site)
    took = statistics.median(seconds(lambda: plan_all(site)) for _ in range(5))
    whole = start_up(["-m", "scalable", "plan", str(EXAMPLE)])
    return {"rows": campaign.rows, "seconds": took, "whole_command_seconds": whole, "goal_seconds": 1.0}


def hundred_thousand() -> dict[str, Any]:
    from scalable import Choice, Site, load_text, plan_sweep

    loaded = load_text(LARGE, env={})
    begin = time.perf_counter()
    plan = plan_sweep(Site(loaded.manifest), "large", Choice("minimize time", "aggressive"))
    took = time.perf_counter() - begin
    return {
        "runs": plan.units,
        "nodes": plan.nodes_peak,
        "workers": plan.workers,
        "seconds": took,
        "goal_seconds": 10.0,
    }


def engine_alone() -> dict[str, Any]:
    """What a run of no length costs to decide on, with and without being given ahead: two workers, 2,000 runs."""
    return {
        "microseconds_per_run": decide(2000, None),
        "microseconds_per_run_given_ahead": decide(2000, 0.0001),
        "goal_microseconds": 33.0,  # a tenth of a core at 3,000 runs a second
    }


def decide(jobs: int, measured_s: float | None) -> float:
    """Microseconds of CPU from one end to the next start, the best of several goes."""
    from scalable.engine import Engine, Rules, WorkerKind
    from scalable.engine.events import (
        Job,
        JobFinished,
        StartJob,
        SubmittedSweep,
        SweepKind,
        SweepSubmitted,
        WorkerJoined,
    )
    from scalable.planning.placement import PoolRoom
    from scalable.planning.resources import Size
    from scalable.quantities import Cpu, Memory

    size = Size(Cpu.of(1), Memory.of_gib(1))
    rules = Rules({"w": WorkerKind("w", "p", size.memory, maximum=2)}, {"p": PoolRoom("p", size, 2, {"w": size})})
    sweep = SubmittedSweep("s", SweepKind.NORMAL, tuple(Job(f"s/{n}", "s", "w") for n in range(jobs)), 2)

    def once() -> float:
        engine = Engine(rules)
        engine.handle(SweepSubmitted(sweep), 0.0)
        told = [one for name in ("a", "b") for one in engine.handle(WorkerJoined(name, "w"), 0.0)]
        given = deque(one for one in told if isinstance(one, StartJob))
        ended, begin = 0, time.process_time()
        while given:
            one = given.popleft()
            ended += 1
            told = engine.handle(JobFinished(one.job, one.attempt, None, measured_s), ended * 1e-4)
            given += [start for start in told if isinstance(start, StartJob)]
        assert ended == jobs
        return (time.process_time() - begin) / jobs * 1e6

    return min(once() for _ in range(20))


def many_keys() -> dict[str, Any]:
    """Whoever runs a sweep or reads its results compiles it: every row's key from settings, code and data."""
    code = """
import json, resource, time
from scalable.manifest.load import load_text
from scalable.sweeps.compiling import compiled
assets = ", ".join(f"A{number}" for number in range(200))
sweep = f"{{factor: calibration, assets: [{assets}], folds: 5, costs_bps: [10, 20, 30, 40]}}"
text = f"version: 1\\nproject: {{name: many}}\\nsweeps: {{many: {sweep}}}"
manifest = load_text(text, "scalable.yaml", env={}).manifest
start = time.perf_counter()
rows = len(compiled(manifest, "many", {}).cells)
took = time.perf_counter() - start
peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
print(json.dumps({"rows": rows, "seconds": took, "peak_mb": peak_mb}))
"""
    return {**in_process(code)[1], "goal_seconds": 6.0, "goal_mb": 500}


def help_and_import() -> dict[str, Any]:
    bare = start_up(["-c", "pass"])
    help_s = start_up(["-m", "scalable", "--help"])
    ours, dasks = start_up(["-c", "import scalable"]), start_up(["-c", "import dask"])
    _, loaded = in_process("import scalable, sys, json; print(json.dumps({'dask': 'dask' in sys.modules}))")
    return {
        "help_seconds": help_s,
        "goal_help_seconds": 0.25,
        "import_seconds": ours,
        "import_dask_seconds": dasks,
        "bare_python_seconds": bare,
        "import_ratio_to_dask": ours / dasks,
        "goal_ratio": 1.0,
        "imports_dask": loaded["dask"],
    }


def measure() -> dict[str, Any]:
    return {
        "plan of the five factors": five_factors(),
        "plan and simulate 100,000 runs on 1,000 nodes": hundred_thousand(),
        "decide on short runs": engine_alone(),
        "compile 12,000 rows with their keys": many_keys(),
        "start-up": help_and_import(),
    }
