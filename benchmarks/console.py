"""Measures the console's page in a real Chromium: a sweep of 10,000 runs on 200 workers, fed for an hour's worth.

The feed is that of ``tests/system/browser``: journal and ``live.json`` as a session writes them, compressed in time.
``paint`` is from navigation to the first text, ``update`` from the arrival of an event in the page until the frame with
it is on the screen, which is what the page adds to the server's own pace of a second. The window is so high that every
panel is in view, and drawn. Memory is the page's heap after a collection, after five minutes' and after an hour's worth
of updates. ``python -m benchmarks.console`` prints the figures.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

from playwright.sync_api import CDPSession, Page, expect
from tests.helpers.browser.serving import served
from tests.helpers.browser.simulated import LARGE, SimulatedRun
from tests.tools.browser import chromium

from scalable.show.console.feed import EVERY_S

WORKERS = 200
TIMED = 15  # updates at the server's own pace, of which the page's part is timed
UPDATES = 600  # of an hour: one for each six seconds of it
FIVE_MINUTES = UPDATES // 12
PACE_S = 0.02  # of the server while the hour is fed, which must not take one
UNITS = 15  # that end in an update
PAINT_GOAL_MS, UPDATE_GOAL_MS = 1000, 200
GROWTH_GOAL = 1.5  # the heap after an hour beside that after five minutes; without a bound it would be 12
LONG_MS = 120_000
# Notes for every event how long it takes from its arrival to the frame after it was drawn.
HOOK = """
window.updates = [];
window.blocked = 0;
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) window.blocked = Math.max(window.blocked, one.duration);
}).observe({ type: "longtask", buffered: true });
const queue = window.queueMicrotask.bind(window); // the page hands every event on through it
window.queueMicrotask = (heard) => {
  queue(() => {
    const came = performance.now();
    heard();
    const painted = new MessageChannel();
    painted.port1.onmessage = () => window.updates.push(performance.now() - came);
    requestAnimationFrame(() => painted.port2.postMessage(null));
  });
};
"""


def measure() -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory() as folder,
        SimulatedRun(Path(folder), LARGE, workers=WORKERS, ago=7200.0) as run,
        served(Path(folder)) as console,
        chromium() as browser,
    ):
        page = browser.new_page(viewport={"width": 1440, "height": 3200})
        page.set_default_timeout(LONG_MS)
        page.add_init_script(HOOK)
        page.goto(console.invite())
        expect(page.locator("#legend-1")).to_have_text(str(WORKERS), timeout=LONG_MS)
        paint = page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime")
        filled = page.evaluate("() => performance.now()")
        devtools = page.context.new_cdp_session(page)
        devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.evaluate("() => { window.updates = []; window.blocked = 0; }")
        before = cpu_s(devtools)
        fed(run, page, TIMED, EVERY_S)
        cpu = cpu_s(devtools) - before
        took, blocked = page.evaluate("() => [window.updates.sort((a, b) => a - b), window.blocked]")
        with patch("scalable.show.console.feed.EVERY_S", PACE_S):
            fed(run, page, FIVE_MINUTES, PACE_S)
            early = heap(devtools)
            fed(run, page, UPDATES - FIVE_MINUTES, PACE_S)
            late = heap(devtools)
    return {
        "runs": LARGE.cells,
        "workers": WORKERS,
        "updates": UPDATES,
        "first_paint_ms": round(paint, 1),
        "all_shown_within_ms": round(filled, 1),
        "goal_first_paint_ms": PAINT_GOAL_MS,
        "update_ms": {
            "median": round(statistics.median(took), 1),
            "p95": round(took[int(len(took) * 0.95)], 1),
            "worst": round(took[-1], 1),
            "goal": UPDATE_GOAL_MS,
        },
        "cpu_ms_of_an_update": round(cpu / TIMED * 1000, 1),
        "longest_task_ms": round(blocked, 1),
        "heap_mb": {"after_5_min": early["heap"], "after_1_h": late["heap"]},
        "elements": {"after_5_min": early["elements"], "after_1_h": late["elements"]},
        "heap_growth": round(late["heap"] / early["heap"], 2),
        "goal_heap_growth": GROWTH_GOAL,
    }


def fed(run: SimulatedRun, page: Page, updates: int, pace_s: float) -> None:
    """Units end and workers change, and the page has shown all of it."""
    for number in range(updates):
        run.advance(UNITS, seconds=6.0)
        if number % 10 == 0:
            run.trouble()
        time.sleep(pace_s)
    done = f"{run.ended:,}".replace(",", "\u202f")
    expect(page.locator("#figure-rows")).to_have_text(done, timeout=LONG_MS)


def cpu_s(devtools: CDPSession) -> float:
    """Of the page's own thread, whatever else the machine does."""
    metrics = devtools.send("Performance.getMetrics")["metrics"]
    return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")


def heap(devtools: CDPSession) -> dict[str, float]:
    devtools.send("HeapProfiler.collectGarbage")
    used = devtools.send("Runtime.getHeapUsage")["usedSize"]
    return {"heap": round(used / 1e6, 2), "elements": devtools.send("Memory.getDOMCounters")["nodes"]}


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
