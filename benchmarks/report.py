"""The report as a page: a sweep of 300 runs is really run, then the whole command is timed and its file weighed."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TIMES = 3
MANIFEST = """
version: 1
project: {name: report}
targets:
  local: {provider: local, max_workers: 2, processes: true}
sweeps:
  calibration:
    factor: calibration
    assets: [AAVEUSDC, UNIUSDC, LDOUSDC, ARBUSDC, OPUSDC]
    folds: 4
    costs_bps: [5, 10, 15, 20, 30]
    trials: 1
"""
ROWS = 3 * 5 * 4 * 5


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "scalable.yaml").write_text(MANIFEST, encoding="utf-8")
        command(folder, "run", "--sweep", "calibration")
        times = [command(folder, "report", "--format", "html", "--output", "report.html") for _ in range(TIMES)]
        page = (folder / "report.html").read_text(encoding="utf-8")
    assert f"{ROWS} / {ROWS}" in page and "Equal shares of 5 assets" in page
    return {
        f"a page about {ROWS} runs": {
            "seconds": statistics.median(times),
            "goal_seconds": 5.0,
            "megabytes": len(page.encode()) / 1e6,
            "goal_megabytes": 3.0,
        }
    }


def command(folder: Path, *arguments: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "scalable", *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin
