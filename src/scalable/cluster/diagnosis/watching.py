"""Remembers what was said, so that each finding is said once, again only when it is news, and withdrawn when over.

``FindingWatch`` does that for all findings. ``Pulse`` brings two of its own: that the event loop or the process
stands still.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalable.findings import Finding, Severity
from scalable.quantities import Duration

logger = logging.getLogger("scalable")

AGAIN_AFTER_S = 600.0  # whoever missed it sees it again
CHANGED_AFTER_S = 30.0  # reasons that take turns are not news each time
OVER_AFTER_S = 3.0  # what is gone for a moment is not over

Record = Callable[..., None]


@dataclass(slots=True)
class Remembered:
    """A finding, and when it began and was last seen, recorded and logged."""

    finding: Finding
    began: float
    seen: float
    reported: float
    logged: float
    over: bool = False


class FindingWatch:
    """Writes ``finding`` and ``finding-over`` through ``record``, which takes a kind and facts, and to the log."""

    def __init__(self, record: Record | None = None) -> None:
        self.record = record
        self.known: dict[tuple[str, str], Remembered] = {}
        self._lock = threading.Lock()

    @property
    def current(self) -> list[Finding]:
        """Return what holds now."""
        return [known.finding for known in list(self.known.values()) if not known.over]

    def update(self, findings: Iterable[Finding], now: float) -> None:
        """Take all that is found now; what was found and is no longer is over."""
        with self._lock:
            for finding in findings:
                self._see(finding, now)
            for known in self.known.values():
                if not known.over and now - known.seen >= OVER_AFTER_S:
                    self._withdraw(known)

    def see(self, finding: Finding, now: float) -> None:
        with self._lock:
            self._see(finding, now)

    def _see(self, finding: Finding, now: float) -> None:
        key = (finding.code, finding.path)
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = Remembered(finding, now, now, now, float("-inf"))
            self._say(known, now)
            return
        known.seen = now
        changed = finding.essence != known.finding.essence and now - known.reported >= CHANGED_AFTER_S
        if known.over:
            known.finding, known.over, known.began = finding, False, now
            self._say(known, now, aloud=changed or now - known.logged >= AGAIN_AFTER_S)
        elif changed or now - known.reported >= AGAIN_AFTER_S:
            known.finding = finding
            self._say(known, now)

    def _say(self, known: Remembered, now: float, *, aloud: bool = True) -> None:
        known.reported = now
        if aloud:
            known.logged = now
            level = logging.INFO if known.finding.severity is Severity.NOTE else logging.WARNING
            logger.log(level, "%s", known.finding)
        self._record("finding", known.finding.to_record("finding"))

    def _withdraw(self, known: Remembered) -> None:
        known.over = True
        facts = {"code": known.finding.code, "about": known.finding.path, "text": known.finding.message}
        self._record("finding-over", {**facts, "lasted_s": round(known.seen - known.began, 3)})

    def _record(self, kind: str, facts: dict[str, Any]) -> None:
        if self.record is not None:
            self.record(kind, **facts)


BLOCKED_AFTER_S = 2.0  # Dask warns of 3 s; workers begin to miss the scheduler after some more
CHECK_EVERY_S = 0.5
WORKED = 0.5  # share of CPU time from which on a process that stood still was busy, not stopped
LOOP_BLOCKED, STOOD_STILL = "loop-blocked", "process-stood-still"


class Pulse:
    """A thread that notices when the event loop stands still, and says in which line.

    The loop calls ``beat``; the thread looks whether it still does. That costs two wake-ups a second. Code that keeps
    Python's lock stops the thread as well; then both are told of when they run again, and the CPU time tells whether
    the process worked or was stopped.
    """

    def __init__(self, watch: FindingWatch) -> None:
        self.watch = watch
        self.beaten = time.monotonic()
        self.loop: int | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scalable-pulse", daemon=True)

    def beat(self) -> None:
        """Say that the loop is alive; starts the thread with the first call."""
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
    """Return the innermost line the thread is in."""
    frame = sys._current_frames().get(thread) if thread is not None else None
    if frame is None:
        return ""
    line = traceback.extract_stack(frame, limit=1)[-1]
    return f" in {line.name} ({Path(line.filename).name}:{line.lineno})"
