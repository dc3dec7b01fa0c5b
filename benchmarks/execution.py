"""What running costs beside raw Dask, measured in the same process by turns: submits, tasks, starts.

Imports nothing heavy at the top: Dask's own worker processes import this file again, and that must not slow them.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROUNDS = 5
TASKS = 2000
WORKERS = 2
MANIFEST = """
version: 1
project: {name: bench}
targets: {local: {provider: local, max_workers: %d, processes: true}}
components: {demeter: {cpus: 1}}
"""


def double(number: int) -> int:
    return number * 2


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        return {**tasks(), "4 workers ready": starts()}


def tasks() -> dict[str, Any]:
    """Submit and gather short tagged tasks, raw and ours by turns."""
    seen: dict[str, dict[str, list[float]]] = {"raw": {}, "ours": {}}
    with raw_client(WORKERS) as raw, our_client(WORKERS) as ours:
        for number in range(-1, ROUNDS):
            for name, client, how in (("raw", raw, {"resources": {"demeter": 1}}), ("ours", ours, {"tag": "demeter"})):
                figures = one_round(client, how, number * TASKS)
                if number >= 0:  # the first round warms up
                    for what, value in figures.items():
                        seen[name].setdefault(what, []).append(value)
    return {
        "caller CPU per tagged submit": compared(seen, "submit_us", goal=1.25),
        "CPU of this process per task, telemetry on": compared(seen, "process_us", goal=1.15),
        "CPU of this process and its workers per task": compared(seen, "all_us", goal=1.15),
        "tasks a second": compared(seen, "rate"),
    }


def one_round(client: Any, how: dict[str, Any], first: int) -> dict[str, float]:
    workers = worker_cpu(client)
    process, wall = time.process_time(), time.perf_counter()
    caller = time.thread_time()
    futures = [client.submit(double, first + number, **how) for number in range(TASKS)]
    submitted = time.thread_time() - caller
    assert client.gather(futures)[-1] == 2 * (first + TASKS - 1)
    used, took = time.process_time() - process, time.perf_counter() - wall
    del futures
    everything = used + worker_cpu(client) - workers
    time.sleep(0.3)
    return {
        "submit_us": submitted / TASKS * 1e6,
        "process_us": used / TASKS * 1e6,
        "all_us": everything / TASKS * 1e6,
        "rate": TASKS / took,
    }


def worker_cpu(client: Any) -> float:
    import psutil

    pids = client.run(os.getpid).values()
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


def starts() -> dict[str, Any]:
    """From nothing to four connected worker processes and a client."""
    seen: dict[str, dict[str, list[float]]] = {"raw": {"seconds": []}, "ours": {"seconds": []}}
    for _ in range(ROUNDS):
        for name, opened in (("raw", raw_client), ("ours", our_client)):
            began = time.perf_counter()
            with opened(4) as client:
                seen[name]["seconds"].append(time.perf_counter() - began)
                assert len(client.scheduler_info(n_workers=-1)["workers"]) == 4
    return compared(seen, "seconds", goal=1.15)


@contextmanager
def raw_client(workers: int) -> Iterator[Any]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, resources={"demeter": 1}
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@contextmanager
def our_client(workers: int) -> Iterator[Any]:
    from scalable import ScalableSession

    Path("scalable.yaml").write_text(MANIFEST % workers, encoding="utf-8")
    with ScalableSession.from_yaml() as client:
        yield client


def compared(seen: dict[str, dict[str, list[float]]], what: str, goal: float | None = None) -> dict[str, Any]:
    raw, ours = (statistics.median(seen[name][what]) for name in ("raw", "ours"))
    figures: dict[str, Any] = {"raw": round(raw, 3), "ours": round(ours, 3), "ratio": round(ours / raw, 3)}
    return {**figures, "goal_ratio": goal} if goal else figures
