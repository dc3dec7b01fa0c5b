"""Remembers what was said, so that each finding is said once, again only when it is news, and withdrawn when over."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from scalable.findings import Finding, Severity

logger = logging.getLogger("scalable")

AGAIN_AFTER_S = 600.0  # whoever missed it sees it again
CHANGED_AFTER_S = 30.0  # reasons that take turns are not news each time
OVER_AFTER_S = 3.0  # what is gone for a moment is not over

Record = Callable[..., None]


@dataclass(slots=True)
class Told:
    finding: Finding
    began: float
    seen: float
    told: float
    logged: float
    over: bool = False


class Watch:
    """Writes ``finding`` and ``finding-over`` through ``record``, which takes a kind and facts, and to the log."""

    def __init__(self, record: Record | None = None) -> None:
        self.record = record
        self.known: dict[tuple[str, str], Told] = {}
        self._lock = threading.Lock()

    @property
    def current(self) -> list[Finding]:
        """What holds now."""
        return [told.finding for told in list(self.known.values()) if not told.over]

    def update(self, found: Iterable[Finding], now: float) -> None:
        """All that is found now; what was found and is no longer is over."""
        with self._lock:
            for finding in found:
                self._see(finding, now)
            for told in self.known.values():
                if not told.over and now - told.seen >= OVER_AFTER_S:
                    self._withdraw(told)

    def see(self, finding: Finding, now: float) -> None:
        with self._lock:
            self._see(finding, now)

    def _see(self, finding: Finding, now: float) -> None:
        key = (finding.code, finding.path)
        told = self.known.get(key)
        if told is None:
            told = self.known[key] = Told(finding, now, now, now, float("-inf"))
            self._say(told, now)
            return
        told.seen = now
        changed = finding.essence != told.finding.essence and now - told.told >= CHANGED_AFTER_S
        if told.over:
            told.finding, told.over, told.began = finding, False, now
            self._say(told, now, aloud=changed or now - told.logged >= AGAIN_AFTER_S)
        elif changed or now - told.told >= AGAIN_AFTER_S:
            told.finding = finding
            self._say(told, now)

    def _say(self, told: Told, now: float, *, aloud: bool = True) -> None:
        told.told = now
        if aloud:
            told.logged = now
            level = logging.INFO if told.finding.severity is Severity.NOTE else logging.WARNING
            logger.log(level, "%s", told.finding)
        self._record("finding", told.finding.to_record("finding"))

    def _withdraw(self, told: Told) -> None:
        told.over = True
        facts = {"code": told.finding.code, "about": told.finding.path, "text": told.finding.message}
        self._record("finding-over", {**facts, "lasted_s": round(told.seen - told.began, 3)})

    def _record(self, kind: str, facts: dict[str, Any]) -> None:
        if self.record is not None:
            self.record(kind, **facts)
