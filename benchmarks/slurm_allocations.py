"""Measures workers that share batch jobs beside workers with a job each, on a private Slurm of several nodes.

``python -m benchmarks.slurm_allocations [WORKERS]`` writes benchmarks/results/slurm_allocations.json: the same work by
48 workers in 48 jobs and in 2, the loss of a node under an allocation, and a forecast beside what the run took.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from tests.helpers.slurm.helpers import Made, made
from tests.helpers.waiting import eventually
from tests.tools.slurm import PrivateSlurm, Settings, running

from benchmarks.faulting import RESULTS
from scalable.observe import RunFolder
from scalable.observe.journal import read
from scalable.session.session import ScalableSession

NODES = 4
WORKERS = 48
TASKS_PER_WORKER = 4
WITHIN_S = 550.0
MEMORY = "300M"
SECONDS = 15.0  # of a row of the sweep that is forecast
ROWS = 32
SWEEP_WORKERS = 8
MODEL = f"""
import time

def score(number):
    time.sleep({SECONDS})
    return {{"score": 1.0}}
"""


def main(workers: int = WORKERS) -> None:
    cpus = -(-workers // NODES)
    settings = Settings(nodes=NODES, cpus=cpus, memory_mb=cpus * 320, slurmd_timeout_s=3, extra=("MessageTimeout=3",))
    figures: dict[str, Any] = {"python": platform.python_version(), "cpus": len(os.sched_getaffinity(0))}
    with tempfile.TemporaryDirectory() as top, running(Path(top) / "slurm", settings) as slurm:
        os.environ |= slurm.env
        for name, part in {
            "a job each": lambda: side_by_side(slurm, workers, {}),
            "two jobs": lambda: side_by_side(slurm, workers, shared(workers)),
            "a node lost": lambda: node_lost(slurm, workers),
            "forecast": lambda: forecast(slurm),
        }.items():
            folder = Path(top) / name.replace(" ", "-")
            folder.mkdir()
            print(f"{name} …", flush=True)
            with chdir(folder):
                figures[name] = part()
            slurm.reset()
            for key, value in figures[name].items():
                print(f"  {key:<34} {value}", flush=True)
        assert figures["a job each"]["results"] == figures["two jobs"]["results"], "the results differ"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "slurm_allocations.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def shared(workers: int) -> dict[str, int]:
    return {"workers_per_job": workers // 2, "nodes_per_job": NODES // 2}


@contextmanager
def cluster(**options: Any) -> Iterator[Made]:
    with made(**{"connect_within": WITHIN_S, **options}) as it:
        it.cluster.add_container(tag="one", cpus=1, memory=MEMORY)
        yield it


def side_by_side(slurm: PrivateSlurm, workers: int, options: dict[str, int]) -> dict[str, Any]:
    before = len(slurm.jobs())
    with cluster(**options) as it:
        began = time.monotonic()
        it.cluster.add_workers(workers, "one")
        accepted = time.monotonic() - began
        it.cluster.wait_until({"one": workers}, WITHIN_S)
        assert it.cluster.worker_count() == workers
        ready = time.monotonic() - began
        results = it.client.gather(it.client.map(lambda x: x * x, range(workers * TASKS_PER_WORKER), tag="one"))
        jobs = len(slurm.jobs()) - before
        began = time.monotonic()
        it.cluster.close()
        closed = time.monotonic() - began
        eventually(lambda: not slurm.living(), lambda: f"{slurm.living()} to be gone", WITHIN_S)
        gone = time.monotonic() - began
    return {
        "workers": workers, "jobs": jobs, "accepted_s": round(accepted, 2), "ready_s": round(ready, 2),
        "close_s": round(closed, 2), "all gone in Slurm_s": round(gone, 2),
        "results": hashlib.sha256(repr(results).encode()).hexdigest()[:16],
    }  # fmt: skip


def node_lost(slurm: PrivateSlurm, workers: int) -> dict[str, Any]:
    """The node on which the script of the first job runs crashes; what is there goes on elsewhere."""
    with cluster(**shared(workers), replace=False) as it:
        it.cluster.add_workers(workers, "one")
        it.cluster.wait_until({"one": workers}, WITHIN_S)
        futures = it.client.map(slow, range(workers * TASKS_PER_WORKER), tag="one")
        began = time.monotonic()
        slurm.crash("n1")
        per_node = workers // NODES
        it.wait_for("worker-lost", per_node, WITHIN_S)
        noticed = time.monotonic() - began
        assert it.client.gather(futures) == [number * number for number in range(workers * TASKS_PER_WORKER)]
        lost = {told["worker"] for told in it.of("worker-lost")}
        left = it.cluster.worker_count()
    return {"workers lost": len(lost), "workers left": left, "all told after_s": round(noticed, 2)}


def slow(number: int) -> int:
    time.sleep(0.5)
    return number * number


def forecast(slurm: PrivateSlurm) -> dict[str, Any]:
    """A first run teaches how long rows and starts take; the second is forecast and run."""
    Path("model.py").write_text(MODEL)
    write_manifest(first=0)
    run_sweep()
    write_manifest(first=ROWS)
    plan = ScalableSession.from_yaml("scalable.yaml", target="hpc").plan_sweep("numbers")
    before = {job.id for job in slurm.jobs()}
    run_sweep()
    mine = [job.id for job in slurm.jobs() if job.id not in before]
    actual = {"jobs": len(mine), "wall_s": wall_s(), "core_hours": sum(core_hours(slurm, job) for job in mine)}
    planned = {"jobs": len(plan.nodes), "wall_s": plan.wall_s, "core_hours": plan.hours.cores}
    figures: dict[str, Any] = {}
    for name, value in planned.items():
        figures[f"{name} forecast"] = round(value, 4)
        figures[f"{name} actual"] = round(actual[name], 4)
        figures[f"{name} difference"] = f"{value / actual[name] - 1:+.1%}"
    return figures


def write_manifest(first: int) -> None:
    """Write a sweep of rows that differ in a number, from ``first`` on."""
    size = {"cpu": 1, "memory": "300MiB"}
    target: dict[str, Any] = {"provider": "slurm", "queue": "main", "interface": "lo", "walltime": "00:30:00"}
    target |= {"max_workers": SWEEP_WORKERS, "workers_per_job": SWEEP_WORKERS // 2, "nodes_per_job": 2}
    numbers = list(range(first, first + ROWS))
    rows = {"factor": "number", "variants": numbers, "assets": ["A"], "folds": 1, "costs_bps": [0]}
    manifest = {
        "version": 1,
        "project": {"name": "forecast"},
        "targets": {"hpc": target},
        "profiles": {"standard": {"request": size, "limit": size, "peak": "100MiB"}},
        "sweeps": {"numbers": {"run": "model:score", **rows}},
    }
    Path("scalable.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")


def run_sweep() -> None:
    session = ScalableSession.from_yaml("scalable.yaml", target="hpc")
    with session:
        assert session.run_sweep("numbers").complete


def wall_s() -> float:
    """From the first job's start to the last one's end in the latest run."""
    records = list(read(RunFolder.list(Path(".scalable/runs"))[-1].journal))
    starts = [record["t"] for record in records if record["kind"] == "attempt-started"]
    ends = [record["t"] for record in records if record["kind"] == "attempt-ended"]
    return float(max(ends) - min(starts))


def core_hours(slurm: PrivateSlurm, job: int) -> float:
    text = slurm.run("scontrol", "--oneliner", "show", "job", str(job))
    begin, end, cpus = (re.search(rf"\b{key}=(\S+)", text) for key in ("StartTime", "EndTime", "NumCPUs"))
    assert begin and end and cpus, text
    seconds = (datetime.fromisoformat(end[1]) - datetime.fromisoformat(begin[1])).total_seconds()
    return seconds * int(cpus[1]) / 3600


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
