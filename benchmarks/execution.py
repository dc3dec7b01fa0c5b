"""What running costs beside raw Dask, and encryption beside none, measured by turns: submits, tasks, starts.

Imports nothing heavy at the top: Dask's own worker processes import this file again, and that must not slow them.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, chdir, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

ROUNDS = 5
ENCRYPTION_ROUNDS = 3  # fewer, since this part starts clusters of its own
START_WITHIN_S = 300.0  # the workers of a cluster, on a machine that has other things to do; then it fails
TASKS = 2000
WORKERS = 2
MANIFEST = """
version: 1
project: {name: bench}
targets: {local: {provider: local, max_workers: %d, processes: true}}
components: {demeter: {cpus: 1}}
"""


Opener = Callable[[int], AbstractContextManager[Any]]
"""Starts a cluster of so many workers and gives a client of it."""
Figures = dict[str, dict[str, list[float]]]


def double(number: int) -> int:
    return number * 2


def tasks() -> dict[str, Any]:
    """Compare short tagged tasks with those of raw Dask."""
    seen = task_rounds(BESIDE_DASK)
    return {
        "caller CPU per tagged submit": compared(seen, "submit_us", goal=1.25),
        "CPU of this process per task, telemetry on": compared(seen, "process_us", goal=1.15),
        "CPU of this process and its workers per task": compared(seen, "all_us", goal=1.15),
        "tasks a second": compared(seen, "rate"),
    }


def starts() -> dict[str, Any]:
    """Compare the start of four worker processes with that of raw Dask."""
    return {"4 workers ready": compared(start_rounds(BESIDE_DASK), "seconds", goal=1.15)}


def encryption() -> dict[str, Any]:
    """Compare the same workers with the run's certificates and without."""
    openers = {"plain": partial(our_workers, encrypted=False), "encrypted": partial(our_workers, encrypted=True)}
    seen = task_rounds(openers, ENCRYPTION_ROUNDS)
    begun = start_rounds(openers, ENCRYPTION_ROUNDS)
    return {
        "encryption": {
            "tasks a second": compared(seen, "rate"),
            "CPU of this process and its workers per task": compared(seen, "all_us"),
            "4 workers ready": compared(begun, "seconds", goal=1.1),
            "CPU to start and end 4 workers": compared(begun, "cpu_s"),
        }
    }


def task_rounds(openers: Mapping[str, Opener], rounds: int = ROUNDS) -> Figures:
    """Submit and gather short tagged tasks, on each cluster by turns."""
    seen: Figures = {name: {} for name in openers}
    with ExitStack() as stack:
        clients = {name: stack.enter_context(opened(WORKERS)) for name, opened in openers.items()}
        for number in range(-1, rounds):
            for name, client in clients.items():
                how = {"resources": {"demeter": 1}} if name == "raw" else {"tag": "demeter"}
                figures = one_round(client, how, number * TASKS)
                if number >= 0:  # the first round warms up
                    for what, value in figures.items():
                        seen[name].setdefault(what, []).append(value)
            progress(f"tasks {number + 1} of {rounds}")
    return seen


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


def start_rounds(openers: Mapping[str, Opener], rounds: int = ROUNDS) -> Figures:
    """From nothing to four connected worker processes and a client."""
    seen: Figures = {name: {"seconds": [], "cpu_s": []} for name in openers}
    for number in range(rounds):
        for name, opened in openers.items():
            cpu, began = cpu_of_all(), time.perf_counter()
            with opened(4) as client:
                seen[name]["seconds"].append(time.perf_counter() - began)
                assert len(client.scheduler_info(n_workers=-1)["workers"]) == 4
            seen[name]["cpu_s"].append(cpu_of_all() - cpu)
        progress(f"starts {number + 1} of {rounds}")
    return seen


def cpu_of_all() -> float:
    """Seconds of this process and of those that it started and that have ended."""
    return sum(os.times()[:4])


def progress(text: str) -> None:
    """Say how far a part is; the figures themselves go to standard output."""
    print(f"    {text}", file=sys.stderr, flush=True)


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

    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("scalable.yaml").write_text(MANIFEST % workers, encoding="utf-8")
        with ScalableSession.from_yaml() as client:
            yield client


@contextmanager
def our_workers(workers: int, *, encrypted: bool) -> Iterator[Any]:
    from scalable.cluster.base import WorkerTemplate
    from scalable.cluster.client import ScalableClient
    from scalable.cluster.cluster import TaggedCluster
    from scalable.cluster.local import ProcessLauncher
    from scalable.cluster.security import certified

    launcher = ProcessLauncher()
    security = certified(launcher.handout) if encrypted else None
    scheduler = {"host": "127.0.0.1", "protocol": "tls" if encrypted else "tcp"}
    with TaggedCluster(launcher, [WorkerTemplate("demeter")], security=security, scheduler=scheduler) as cluster:
        cluster.add_workers(workers, "demeter")
        cluster.wait_until({"demeter": workers}, START_WITHIN_S)
        with ScalableClient(cluster) as client:
            yield client


BESIDE_DASK: dict[str, Opener] = {"raw": raw_client, "ours": our_client}


def compared(seen: Figures, what: str, goal: float | None = None) -> dict[str, Any]:
    """Return the medians of both, and how many times the first the second is."""
    medians = {name: statistics.median(values[what]) for name, values in seen.items()}
    first, second = medians.values()
    figures: dict[str, Any] = {name: round(value, 3) for name, value in medians.items()}
    figures["ratio"] = round(second / first, 3)
    return {**figures, "goal_ratio": goal} if goal else figures
