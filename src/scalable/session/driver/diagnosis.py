"""The observer of a session: a cluster's observer that knows the engine's bounds, queues, refusals and money too."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from scalable.cluster.diagnosis import LIMITS, Bounds, Kind, Limits, Snapshot
from scalable.cluster.diagnosis.observing import Observer
from scalable.cluster.diagnosis.watching import Pulse
from scalable.engine.fleet import MAX_REFUSALS

if TYPE_CHECKING:
    from scalable.cluster.workers import Member
    from scalable.session.driver.driver import Driver
    from scalable.session.driver.recorder import Look

logger = logging.getLogger("scalable")

LOOK_EVERY_S = 0.9  # every other look of the driver; what is told of lasts for seconds at least
MOST_CHECKED = 1000  # tasks that are looked at to see what they wait for


class SessionObserver(Observer):
    """Called with every look of the driver."""

    def __init__(self, driver: Driver, limits: Limits = LIMITS) -> None:
        super().__init__(driver.cluster, driver.journal.write, limits)
        driver.cluster.has_observer = True
        self.driver = driver
        self.seen: Look | None = None
        self.done: dict[str, int] = {}
        self.pulse = Pulse(self.watch)
        self.looked = float("-inf")
        self.broken = False

    def __call__(self, seen: Look, *, last: bool = False) -> None:
        self.pulse.beat()
        if self.broken or (not last and time.monotonic() - self.looked < LOOK_EVERY_S):
            return
        self.seen, self.looked = seen, time.monotonic()
        try:
            self.look()
        except Exception:  # a run must not suffer from what only explains it
            self.broken = True
            logger.exception("the diagnosis of this session stopped; the session goes on")

    def close(self) -> None:
        self.pulse.close()

    def snapshot(self, now: float) -> Snapshot:
        engine = self.driver.engine.view
        most = engine.rules.most_workers
        return replace(super().snapshot(now), most_workers=most, paused=engine.paused, stopped=engine.braked)

    def waiting(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the waiting work as the driver saw it, and what the engine has in its own queues."""
        own = self.driver.engine.view.tags
        tags = self.seen.tags if self.seen else {}
        waiting = {tag: counts.waiting + (own[tag].queued if tag in own else 0) for tag, counts in tags.items()}
        unplaced = dict.fromkeys(waiting, 0)
        recorder = self.driver.recorder
        first = next(iter(waiting), None)
        for task in islice(self.cluster.scheduler.unrunnable, MOST_CHECKED):
            if (tag := recorder.tag_of(task) or first) is not None:
                unplaced[tag] += 1
        return waiting, unplaced

    def kind(self, tag: str, members: list[Member], waiting: int, unplaced: int, now: float) -> Kind:
        self.notice_short_tasks(tag, members)
        seen = super().kind(tag, members, waiting, unplaced, now)
        driver, engine = self.driver, self.driver.engine.view
        record = engine.tags.get(tag)
        if record is None:
            return seen
        minimum, maximum = record.minimum, record.maximum
        bounds = Bounds.FIXED if minimum == maximum else Bounds.ADAPTIVE
        if driver.scaler is not None:
            bounds, minimum, maximum = (
                Bounds.SCALER,
                driver.scaler.min_workers.get(tag, 0),
                driver.scaler.max_workers.get(tag),
            )
        given_up = record.refusals >= MAX_REFUSALS and record.workers == 0
        refusal = replace(seen.refusal, given_up=given_up) if seen.refusal else None
        price = driver.meter.tariff.hourly(tag) if driver.meter is not None else None
        known = sum(member.tag == tag and not member.joined for member in members)
        return replace(
            seen,
            running=seen.running + max(0, driver.attempts.by_tag[tag] - record.ahead),
            bounds=bounds,
            minimum=minimum,
            maximum=maximum,
            unaccepted=max(0, record.requested - known),
            cooling_s=max(0.0, engine.cooled_down(tag) - driver.now()),
            refusal=refusal,
            hourly=str(price) if price else "",
        )

    def notice_short_tasks(self, tag: str, members: list[Member]) -> None:
        """Count workers of a tag as not idle if tasks ended between two looks."""
        done = self.seen.tags[tag].done if self.seen and tag in self.seen.tags else 0
        if done != self.done.get(tag, 0):
            self.done[tag] = done
            for member in members:
                if member.tag == tag:
                    self.idle_since.pop(member.name, None)
