"""Notices when the event loop that serves scheduler and workers stands still, and says in which line.

The loop calls ``beat``; a thread beside it looks whether it still does. That costs two wake-ups a second. Code that
keeps Python's lock stops the thread as well; then both are told of when they run again, and the CPU time tells whether
the process worked or was stopped.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from pathlib import Path

from scalable.cluster.diagnosis.watching import Watch
from scalable.findings import Finding, Severity
from scalable.quantities import Duration

BLOCKED_AFTER_S = 2.0  # Dask warns of 3 s; workers begin to miss the scheduler after some more
CHECK_EVERY_S = 0.5
WORKED = 0.5  # share of CPU time from which on a process that stood still was busy, not stopped
LOOP_BLOCKED, STOOD_STILL = "loop-blocked", "process-stood-still"


class Pulse:
    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.beaten = time.monotonic()
        self.loop: int | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scalable-pulse", daemon=True)

    def beat(self) -> None:
        """The loop is alive; starts the thread with the first call."""
        self.beaten = time.monotonic()
        if self.loop is None:
            self.loop = threading.get_ident()
            self._thread.start()

    def close(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        checked, cpu = time.monotonic(), time.process_time()
        while not self._ended.wait(CHECK_EVERY_S):
            now, used = time.monotonic(), time.process_time()
            slept = now - checked - CHECK_EVERY_S
            if slept >= BLOCKED_AFTER_S:
                self.watch.see(stood_still(slept, (used - cpu) / (now - checked)), time.time())
                self.beaten = now  # the loop had no chance either
            elif now - self.beaten >= BLOCKED_AFTER_S + CHECK_EVERY_S:
                self.watch.see(blocked(now - self.beaten, self.loop), time.time())
            checked, cpu = now, used


def blocked(seconds: float, thread: int | None) -> Finding:
    where = place_of(thread)
    return Finding(
        LOOP_BLOCKED,
        Severity.WARNING,
        "",
        f"the event loop of this process hangs for {Duration(round(seconds))}{where}; meanwhile nothing is started",
        "keep long calls out of callbacks and plugins, and large objects out of submit: pass files or scattered data",
        essence=where,
    )


def stood_still(seconds: float, share: float) -> Finding:
    text = f"this process stood still for {Duration(round(seconds))}"
    if share >= WORKED:
        remedy = "code without Python's cooperation kept it busy; run such code in tasks, not beside the scheduler"
    else:
        remedy = "it was stopped or swapped out: was the machine suspended, or is it short of memory?"
    return Finding.warning(STOOD_STILL, "", text, remedy)


def place_of(thread: int | None) -> str:
    """The innermost line the thread is in."""
    frame = sys._current_frames().get(thread) if thread is not None else None
    if frame is None:
        return ""
    line = traceback.extract_stack(frame, limit=1)[-1]
    return f" in {line.name} ({Path(line.filename).name}:{line.lineno})"
