"""The commands about runs: ``report``, ``status`` and ``logs``, on journals as sessions write and leave them."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.observe.builders import (
    GIB,
    Record,
    a_plan,
    closed,
    joined,
    lost,
    record,
    removed,
    started,
    task,
)

RUNS = Path(".scalable/runs")

NAMES = [f"demeter-{number}" for number in range(5)]


def a_story() -> list[Record]:
    """Five workers, of which three go; fifty tasks, of which one fails; a plan that was not quite right."""
    sizes = {"demeter": {"cpus": 2, "memory": "8GiB"}}
    up = record("scale", 1, direction="up", tag="demeter", count=5, reason="work for 50")
    down = record("scale", 70, direction="down", tag="demeter", count=2, reason="10% busy, work for 1")
    return [
        a_plan(
            workers_by_tag={"demeter": 6}, resources_by_tag=sizes, wall_s=60, cost={"amount": 0.2, "currency": "EUR"}
        ),
        *(up, up, up),
        *map(started, [*NAMES, "demeter-5"]),
        *map(joined, NAMES),
        *(task(f"inc-{n}", 10 + n, 2, worker=NAMES[n % 5], ok=n != 7) for n in range(50)),
        record("peaks", 20, worker=NAMES[3], tag="demeter", peaks={"inc-3": 7 * GIB}),
        lost(NAMES[0], 50, cause="out of memory", detail="8.1 GiB of 8 GiB"),
        record("retry", 51, tag="demeter", cause="out of memory"),
        down,
        removed(NAMES[1], 80),
        removed(NAMES[2], 81),
        record("finding", 82, code="no-connect", text="demeter-5 does not connect", remedy="write interface: eth0"),
        record("alert", 83, alert="retry-used", text="inc-3 was run again"),
        record("cost", 84, spent={"amount": 0.17, "currency": "EUR"}, per_hour={"amount": 0.33, "currency": "EUR"}),
        *map(closed, NAMES[3:]),
    ]
