"""Measures what users wait for, beside its goals and beside peers in the same run; ``make bench`` calls this.

Each topic runs in a process of its own and writes ``benchmarks/results/<topic>.json``; name topics to run them alone.
A topic of several parts runs each in a process of its own, and writes down what a part measured as soon as it ends;
``python -m benchmarks execution.encryption`` runs one part and leaves the figures of the others as they are.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

TOPICS = (
    "planning", "execution", "journal", "caching", "store", "runs", "guarding", "operations", "sweeps", "learning",
    "cleaning", "metrics", "report", "console",
)  # fmt: skip
PARTS = {
    "execution": ("tasks", "starts", "encryption"),
    "learning": ("burn", "ablation", "calibration"),
    "store": ("measure", "million_in_a_file", "million_on_a_server"),
}
"""Functions of a topic's module, for topics that have more than ``measure``."""
ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks/results"


def main(names: list[str]) -> int:
    known = [*TOPICS, *(f"{topic}.{part}" for topic, parts in PARTS.items() for part in parts)]
    if unknown := set(names) - set(known):
        print(f"no benchmark is called {', '.join(sorted(unknown))}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    RESULTS.mkdir(exist_ok=True)
    machine = {"python": platform.python_version(), "cpus": len(os.sched_getaffinity(0))}
    for name in names or TOPICS:
        topic, _, only = name.partition(".")
        parts = (only,) if only else PARTS.get(topic, ("measure",))
        path = RESULTS / f"{topic}.json"
        figures = json.loads(path.read_text(encoding="utf-8")) if only and path.exists() else {}
        for part in parts:
            print(f"{topic if part == 'measure' else f'{topic}.{part}'} …", flush=True)
            measured = figures_of(topic, part)
            show(measured, 1)
            figures |= machine | measured
            path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(f"written to {RESULTS.relative_to(ROOT)}/")
    return 0


def figures_of(topic: str, part: str) -> dict[str, Any]:
    """Call a function of a topic's module in a process of its own."""
    code = f"import json; from benchmarks.{topic} import {part}; print(json.dumps({part}()))"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True, env=env)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def show(figures: dict[str, Any], depth: int) -> None:
    for name, value in figures.items():
        if isinstance(value, dict):
            print(f"{'  ' * depth}{name}")
            show(value, depth + 1)
        else:
            print(f"{'  ' * depth}{name:<28} {f'{value:.3f}' if isinstance(value, float) else value}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
