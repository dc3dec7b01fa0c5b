"""Feeds as large runs have them: what a session with many workers writes, record by record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scalable.observe.sweep_progress import spans
from tests.helpers.observe.builders import (
    GIB,
    Record,
    a_plan,
    attempt,
    attempt_ended,
    joined,
    record,
    run_started,
    started,
)

COSTS = 5


def a_large_run(units: int = 10_000, workers: int = 200, assets: int = 100, folds: int = 20) -> Iterator[Record]:
    """A sweep of so many units of one row each, half of which have ended; every worker is busy."""
    yield run_started("run-large")
    money = {"amount": 100.0, "currency": "USD"}
    yield a_plan(resources_by_tag={"demeter": {"memory": 8 * GIB}}, workers_by_tag={"demeter": workers}, cost=money)
    yield record("tariff", 0.2, currency="USD", basis="nodes", assumed=[], budget=money)
    for number in range(workers):
        name = f"demeter-{number}"
        yield started(name)
        yield record("machine", 2, machine=f"node-{number // 4}", pool="spot", price="1.5", since=record("x")["t"])
        yield record("placed", 3, worker=name, tag="demeter", machine=f"node-{number // 4}", part=0.25, slots=1)
        yield joined(name)
    variants = units // (assets * folds)
    axes: dict[str, Any] = {
        "variant": [f"v{number}" for number in range(variants // COSTS)],
        "asset": [f"ASSET{number}" for number in range(assets)],
        "fold": [str(number) for number in range(folds)],
        "cost_bps": [str(number) for number in range(COSTS)],
    }
    yield record(
        "sweep-started", 8, sweep="large", factor="depth", tag="demeter", expected=units, there=0, units=units,
        axes=axes, cells_there="", failed_cells="",
    )  # fmt: skip
    names = [f"unit {number}" for number in range(units)]
    yield record("sweep-units", 8, sweep="large", unit_cells={name: str(at) for at, name in enumerate(names)})
    for number, name in enumerate(names[: units // 2]):
        yield from a_unit(name, number, f"demeter-{number % workers}", 10 + number / 10)
    for number, name in enumerate(names[units // 2 :][:workers]):
        yield attempt(name, at=10 + units / 20, worker=f"demeter-{number}")


def a_unit(name: str, position: int, worker: str, at: float) -> Iterator[Record]:
    """All that is told of a unit of one row."""
    yield attempt(name, at=at, worker=worker)
    yield record("progress", at + 1, run=name, worker=worker, tag="demeter", step=1, of=3, note="trial", memory=GIB)
    yield attempt_ended(name, at=at + 2, worker=worker, seconds=2.0, cpu_s=1.0, peak=GIB)
    yield record("run-ended", at + 2, run=name, state="finished", reason="")
    yield record(
        "rows", at + 2.1, sweep="large", run=name, count=1, failed=0, fresh=True, cells=spans([position]),
        failed_cells="",
    )  # fmt: skip
    tasks = {"demeter": {"waiting": 100, "running": 200, "done": position, "failed": 0}}
    live = {"demeter": {"live": 200, "busy": 200, "requested": 0}}
    cost = {"amount": at / 100, "currency": "USD"}
    yield record("gauge", at + 2.2, workers=live, tasks=tasks, cost=cost)
