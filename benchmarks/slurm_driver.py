"""Measures the CPU time of a driver whose workers are many batch jobs, on a private Slurm.

``python -m benchmarks.slurm_driver [WORKERS]`` writes benchmarks/results/slurm_driver.json: the share of a core that a
session of 500 workers takes while they wait and while they work, with the Slurm commands that it runs.

All is real but the processes of workers, since 500 of them need more machines. The batch job of each is a shell that
names it to one of a few hosts and then sleeps; the host runs the worker itself, of the package's own class.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import chdir
from pathlib import Path
from secrets import token_hex
from typing import Any

import dask
import yaml
from tests.helpers.waiting import eventually
from tests.tools.slurm import MemoryRule, Settings, running

from benchmarks.faulting import RESULTS
from scalable.session.session import ScalableSession
from scalable.worker.main import SETTINGS, TellingWorker, security
from scalable.worker.meter import Meter
from scalable.worker.options import WorkerOptions
from scalable.worker.runner.process import Settings as RunnerSettings
from scalable.worker.runners import Runners

WORKERS = 500
NODES = 4
HOSTS = 4
WITHIN_S = 420.0
MEASURED_S = 60.0
TASK_S = 20.0
LOOK_EVERY_S = 0.2
SHELL = """#!/bin/bash
while [ "$1" != scalable.worker ]; do shift; done
shift
file={folder}/$SLURM_JOB_ID
printf '%s\\n' "$@" >$file.new && mv $file.new $file.$((SLURM_JOB_ID % {hosts}))
trap 'exit 0' TERM
while :; do sleep 3600 & wait; done
"""


def main(workers: int = WORKERS) -> None:
    cpus = -(-workers // NODES)
    settings = Settings(nodes=NODES, cpus=cpus, memory_mb=cpus * 4096, memory=MemoryRule.NONE)
    with tempfile.TemporaryDirectory() as top, running(Path(top) / "slurm", settings) as slurm:
        os.environ |= slurm.env
        folder = Path(top) / "asked"
        folder.mkdir()
        python = Path(top) / "python"
        python.write_text(SHELL.format(folder=folder, hosts=HOSTS))
        python.chmod(0o755)
        command = [sys.executable, "-m", "benchmarks.slurm_driver", "host", str(folder)]
        with Path(top, "hosts.log").open("w") as log:
            hosts = [subprocess.Popen([*command, str(number)], stdout=log, stderr=log) for number in range(HOSTS)]
        try:
            with chdir(top):
                figures = session(workers, str(python))
        finally:
            for host in hosts:
                host.kill()
                host.wait()
    for name, value in figures.items():
        print(f"{name:<40} {value}")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "slurm_driver.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def session(workers: int, python: str) -> dict[str, Any]:
    hpc = {"provider": "slurm", "queue": "main", "interface": "lo", "max_workers": workers, "python": python}
    manifest = {
        "version": 1, "project": {"name": "many"}, "targets": {"hpc": {**hpc, "walltime": "04:00:00"}},
        "components": {"model": {"cpus": 1, "memory": "4GiB"}},
    }  # fmt: skip
    Path("scalable.yaml").write_text(yaml.safe_dump(manifest))
    began = time.monotonic()
    with ScalableSession.from_yaml("scalable.yaml", target="hpc") as client:
        eventually(lambda: client.worker_count() == workers, lambda: f"{client.worker_count()} there", WITHIN_S)
        ready = time.monotonic() - began
        time.sleep(MEASURED_S / 4)  # questions to Slurm get rarer when nothing changes
        waiting = share(lambda: time.sleep(MEASURED_S))
        futures = client.map(asleep, range(3 * workers), tag="model", pure=False)
        working = share(lambda: client.gather(futures))
        began = time.monotonic()
    return {
        "workers connected": workers, "ready_s": round(ready, 1), "close_s": round(time.monotonic() - began, 1),
        "waiting, percent of a core": waiting, f"{workers / TASK_S:.0f} tasks a second, percent of a core": working,
    }  # fmt: skip


def share(work: Any) -> float:
    """Return the CPU time of this process and of what it starts while it does something, as a part of a core."""
    began, before = time.monotonic(), sum(os.times()[:4])
    work()
    return round(100 * (sum(os.times()[:4]) - before) / (time.monotonic() - began), 2)


def asleep(number: int) -> int:
    time.sleep(TASK_S)
    return number


async def serve(folder: Path, number: str) -> None:
    """Run the workers that batch jobs name to this host."""
    there: dict[str, TellingWorker] = {}
    while True:
        for file in sorted(folder.glob(f"*.{number}")):
            options = WorkerOptions.parse(file.read_text().splitlines())
            file.unlink()
            runners = Runners(RunnerSettings(cpus=1, memory=options.memory, mark=token_hex(8), log=None))
            there[options.name] = worker = TellingWorker(
                options.scheduler, name=options.name, nthreads=1, resources=options.resources, memory_limit=0,
                local_directory=str(folder.parent / "scratch"), host="127.0.0.1", security=security(options.handout),
                plugins=(Meter(None), runners), dashboard=False, dashboard_address="127.0.0.1:0",
            )  # fmt: skip
            with contextlib.suppress(OSError, TimeoutError):
                await worker
        await asyncio.sleep(LOOK_EVERY_S)


if __name__ == "__main__":
    if sys.argv[1:2] == ["host"]:
        with dask.config.set({**SETTINGS, "distributed.admin.system-monitor.interval": "60s"}):
            asyncio.run(serve(Path(sys.argv[2]), sys.argv[3]))
    else:
        main(*map(int, sys.argv[1:2]))
