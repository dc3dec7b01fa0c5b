"""Measures how many events a second the journal takes, beside the ``logging`` module writing the same lines.

Both encode the same record to JSON and have it in a file when they are closed; processor time counts the writing thread
too. ``python -m benchmarks.journal`` prints the figures.
"""

from __future__ import annotations

import json
import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scalable.observe import Journal, read

EVENTS = 100_000
ROUNDS = 3  # the best of them counts: others use the machine too
GOAL_PER_S = 20_000


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        ours = min(journal(Path(folder) / f"journal-{number}") for number in range(ROUNDS))
        theirs = min(logged(Path(folder) / f"logging-{number}") for number in range(ROUNDS))
    return {
        "events": EVENTS,
        "journal_events_per_s": EVENTS / ours,
        "journal_microseconds": ours / EVENTS * 1e6,
        "logging_events_per_s": EVENTS / theirs,
        "ratio_to_logging": theirs / ours,
        "goal_events_per_s": GOAL_PER_S,
    }


def event(number: int) -> dict[str, Any]:
    begin = 1_776_248_100.25 + number
    names = {"key": f"inc-{number:032x}", "name": "inc", "tag": "demeter", "worker": "demeter-3"}
    return {**names, "start": begin, "stop": begin + 1.5, "status": "finished"}


def journal(path: Path) -> float:
    """Seconds of one core for all events, closing included."""

    def write() -> None:
        with Journal(path) as target:
            for number in range(EVENTS):
                target.write("task", **event(number))
                if number % 10_000 == 0:
                    target.flush()  # as a run would, not faster than any disk can take
            assert target.lost == 0

    took = cpu_seconds(write)
    assert sum(1 for _ in read(path)) == EVENTS
    return took


def logged(path: Path) -> float:
    def write() -> None:
        handler = logging.FileHandler(path, encoding="utf-8")
        logger = logging.Logger("benchmark")
        logger.addHandler(handler)
        for number in range(EVENTS):
            logger.info(json.dumps({"t": time.time(), "kind": "task", **event(number)}))
        handler.close()

    return cpu_seconds(write)


def cpu_seconds(action: Callable[[], None]) -> float:
    begin = time.process_time()
    action()
    return time.process_time() - begin


def main() -> None:
    for name, figure in measure().items():
        print(f"{name:<24} {figure:,.2f}")


if __name__ == "__main__":
    main()
