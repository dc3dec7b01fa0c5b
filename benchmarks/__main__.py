"""Measures what users wait for, beside its goals and beside peers in the same run; ``make bench`` calls this.

Each topic runs in a process of its own and writes ``benchmarks/results/<topic>.json``; name topics to run them alone.
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
ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks/results"


def main(topics: list[str]) -> int:
    if unknown := set(topics) - set(TOPICS):
        print(f"no benchmark is called {', '.join(sorted(unknown))}; there are: {', '.join(TOPICS)}", file=sys.stderr)
        return 2
    RESULTS.mkdir(exist_ok=True)
    machine = {"python": platform.python_version(), "cpus": len(os.sched_getaffinity(0))}
    for topic in topics or TOPICS:
        print(f"{topic} …", flush=True)
        code = f"import json; from benchmarks.{topic} import measure; print(json.dumps(measure()))"
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True, env=env)
        figures = json.loads(done.stdout)
        show(figures, 1)
        (RESULTS / f"{topic}.json").write_text(json.dumps({**machine, **figures}, indent=1) + "\n", encoding="utf-8")
    print(f"written to {RESULTS.relative_to(ROOT)}/")
    return 0


def show(figures: dict[str, Any], depth: int) -> None:
    for name, value in figures.items():
        if isinstance(value, dict):
            print(f"{'  ' * depth}{name}")
            show(value, depth + 1)
        else:
            print(f"{'  ' * depth}{name:<28} {f'{value:.3f}' if isinstance(value, float) else value}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
