"""Measures what it costs to show a large session: a scrape of /metrics, live.json, and the alerts.

The session is a live one with 10,000 runs in its engine, of which two real workers do some; 198 more workers, each with
a run, are made up: the driver's records of them are real, only nobody is behind them. ``python -m benchmarks.metrics``
prints the figures.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.peers import TAG, WORKERS
from benchmarks.sessions import opened, submit

if TYPE_CHECKING:
    from scalable.session.driver.driver import Driver

RUNS = 10_000
MADE_UP = 200 - WORKERS
RUN_S = 0.2  # of a run, so that driver and workers have something to do meanwhile
SCRAPES = 30
LOOKS = 20
GOAL_MS = 50.0
GOAL_SHARE = 0.01  # of a core, for all that is not asked for


def measure() -> dict[str, Any]:
    with opened() as session:
        driver = session.live()
        submit(session, nap, [{}] * RUNS)
        with made_up(driver):
            milliseconds, text = scraped(driver)
            looked = driver.cluster.sync(looks, driver)
    assert text.count("scalable_worker_cpu_limit_cores{") == MADE_UP + WORKERS
    return {
        "runs": RUNS,
        "workers": MADE_UP + WORKERS,
        "kilobytes": round(len(text) / 1000, 1),
        "scrape_ms": round(statistics.median(milliseconds), 1),
        "scrape_worst_ms": round(max(milliseconds), 1),
        "goal_ms": GOAL_MS,
        **looked,
        "goal_core_share": GOAL_SHARE,
    }


def nap() -> None:
    time.sleep(RUN_S)


def scraped(driver: Driver) -> tuple[list[float], str]:
    """How long each scrape took, as Prometheus would see it, and what came."""
    assert driver.live is not None
    took, text = [], ""
    for _ in range(SCRAPES):
        began = time.perf_counter()
        with urllib.request.urlopen(driver.live.served.url, timeout=60) as answer:
            text = answer.read().decode()
        took.append((time.perf_counter() - began) * 1000)
    return took, text


async def looks(driver: Driver) -> dict[str, Any]:
    """CPU time of a look with its alerts and its file, and its part of the time until the next one."""
    from scalable.session.operate.live import EVERY_S

    live = driver.live
    assert live is not None
    began = time.thread_time()
    for at in range(LOOKS):
        live.look(float(at))
        assert live.writing is not None
        await live.writing
    in_loop = (time.thread_time() - began) / LOOKS
    facts = {"workers": driver.measures.workers(), "alerts": live.alerting.firing()}
    began = time.thread_time()
    for at in range(LOOKS):
        live.write({**facts, "paused": str(at)}, [], float(at))
    in_thread = (time.thread_time() - began) / LOOKS
    share = (in_loop + in_thread) / EVERY_S
    return {
        "look_ms": round(in_loop * 1000, 2), "write_ms": round(in_thread * 1000, 2), "core_share": round(share, 4),
        "live_kilobytes": round(live.folder.live_file.stat().st_size / 1000, 1),
    }  # fmt: skip


@contextmanager
def made_up(driver: Driver) -> Iterator[None]:
    """Workers that only the driver knows of, until the block ends."""
    driver.cluster.sync(come, driver)
    try:
        yield
    finally:
        driver.cluster.sync(go, driver)


async def come(driver: Driver) -> None:
    from distributed.core import Status
    from distributed.scheduler import WorkerState

    from scalable.cluster.workers import Member
    from scalable.session.driver.attempts import LiveAttempt
    from scalable.worker.measures import NAME, WorkerMeasures

    told = WorkerMeasures().reading()
    real = next(iter(driver.cluster.members.values()))
    known = driver.cluster.scheduler.workers[real.address].metrics
    for at in range(MADE_UP):
        name, address = f"{TAG}-{1000 + at}", f"tcp://192.0.2.1:{10_000 + at}"
        member = Member(name, real.template, real.launched, time.time(), time.monotonic(), address, joined=True)
        state = WorkerState(
            address=address, status=Status.running, pid=0, name=name, nthreads=1, memory_limit=2**30,
            local_directory="", nanny=None, server_id=name, scheduler=driver.cluster.scheduler,
        )  # fmt: skip
        state.metrics = {**known, NAME: {**told, "node": f"node-{at % 50}"}}
        state.last_seen = time.time() + 3600
        driver.cluster.members[name] = member
        driver.cluster.scheduler.workers[address] = state
        attempt = LiveAttempt(f"made-up-{at}", 1, name, TAG, address, time.time(), time.monotonic(), b"")
        attempt.seen = {"idle_s": 0.5, "step": 3, "of": 30, "note": "trial 3/30", "memory": 10**8, "cpu_s": 1.0}
        driver.attempts.under_way[attempt.key] = attempt
    await asyncio.sleep(0)


async def go(driver: Driver) -> None:
    for at in range(MADE_UP):
        member = driver.cluster.members.pop(f"{TAG}-{1000 + at}")
        driver.cluster.scheduler.workers.pop(member.address)
        driver.attempts.under_way.pop(f"made-up-{at}-attempt-1")


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
