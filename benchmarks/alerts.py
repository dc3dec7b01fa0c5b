"""Provokes every alert while a real Prometheus and Alertmanager watch, and prints how, and how long it took.

``python -m benchmarks.alerts`` writes benchmarks/results/alerts.json. The rules are those that ``scalable admin deploy
prometheus`` writes, in a hundredth of their time; a second is up to the times at which Prometheus looks.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.helpers.prometheus.provoking import FASTER, watched_and_provoked

RESULTS = Path(__file__).parent / "results/alerts.json"
WIDTHS = (16, 84)


def main() -> None:
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as top:
        os.chdir(top)
        try:
            seen = watched_and_provoked(Path(top))
        finally:
            os.chdir(home)
    print(f"{'alert':<{WIDTHS[0]}} {'provoked':<{WIDTHS[1]}} fires  over (s)")
    for one in seen.outcomes:
        print(f"{one.alert:<{WIDTHS[0]}} {one.provoked:<{WIDTHS[1]}} {one.fired_s:5.1f}  {one.resolved_s:4.1f}")
    facts = {"python": platform.python_version(), "cpus": len(os.sched_getaffinity(0)), "durations": FASTER}
    RESULTS.parent.mkdir(exist_ok=True)
    rows = [asdict(one) for one in seen.outcomes]
    RESULTS.write_text(json.dumps({**facts, "alerts": rows}, indent=1) + "\n", encoding="utf-8")
    print(f"written to {RESULTS.relative_to(Path(__file__).parent.parent)}")


if __name__ == "__main__":
    main()
