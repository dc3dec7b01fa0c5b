"""Looks at a live cluster again and again, keeps what one look cannot see (since when), and has it diagnosed.

Runs in the cluster's event loop. A cluster has such an observer of its own; a session brings one that knows more.
"""

from __future__ import annotations

import re
import time
from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalable.cluster.diagnosis.diagnose import diagnose
from scalable.cluster.diagnosis.snapshot import LIMITS, Awaited, Bounds, Kind, Limits, Refusal, Snapshot
from scalable.cluster.diagnosis.watching import FindingWatch, Record
from scalable.cluster.network import interfaces
from scalable.engine.events import Loss
from scalable.observe.logs import LAST_LINES, last_lines, without_time

if TYPE_CHECKING:
    from scalable.cluster.cluster import TaggedCluster
    from scalable.cluster.workers import Member

LOOK_EVERY_S = 2.0  # of a cluster's own observer; thresholds are tens of seconds
STARTS_KEPT = 20
LONGEST_LINE = 200  # characters of a log that fit into a sentence
CHATTER = re.compile(r" - distributed\S* - (INFO|DEBUG) - ")
LOGS_READ = 3  # of silent workers, in one look; a disk may be slow


@dataclass(slots=True)
class Past:
    """The memory of earlier looks at a tag."""

    waits_since: float | None = None
    refusal: Refusal | None = None
    starts_s: deque[float] = field(default_factory=lambda: deque(maxlen=STARTS_KEPT))
    cold: int = 0


class Observer:
    def __init__(self, cluster: TaggedCluster, record: Record | None = None, limits: Limits = LIMITS) -> None:
        self.cluster = cluster
        self.watch = FindingWatch(record)
        self.limits = limits
        self.past: dict[str, Past] = {}
        self.idle_since: dict[str, float] = {}
        self.runs_since: dict[str, float] = {}
        self.queued: set[str] = set()
        """Workers that were seen waiting in the backend's queue."""
        cluster.listeners.append(self.heard)

    def look(self) -> None:
        now = time.time()
        self.watch.update(diagnose(self.snapshot(now), now, self.limits), now)

    def heard(self, kind: str, facts: dict[str, Any]) -> None:
        """Take note of what the cluster tells of its workers."""
        if kind == "workers-refused":
            past = self.of(facts["tag"])
            cause = Loss(facts["cause"]) if "cause" in facts else None
            times = past.refusal.times + 1 if past.refusal else 1
            past.refusal = Refusal(facts["reason"], time.time(), cause, times)
        elif kind == "worker-joined":
            past = self.of(facts["tag"])
            past.refusal = None
            past.starts_s.append(facts["took_s"])
            alone = sum(m.tag == facts["tag"] and m.joined for m in self.cluster.members.values()) == 1
            past.cold += alone and past.waits_since is not None

    def snapshot(self, now: float) -> Snapshot:
        cluster, launcher = self.cluster, self.cluster.launcher
        members = [member for member in list(cluster.members.values()) if not member.leaving]
        self.remember(members, now)
        waiting, unplaced = self.waiting()
        address = cluster.scheduler.contact_address or cluster.scheduler.address
        remote = getattr(launcher, "remote", address.startswith("tls://"))  # between machines all is encrypted
        return Snapshot(
            kinds=tuple(self.kind(tag, members, waiting.get(tag, 0), unplaced.get(tag, 0), now) for tag in waiting),
            awaited=tuple(self.awaited(members, now)),
            remote=remote,
            scheduler=address,
            interfaces=interfaces() if remote else {},
            pods=getattr(launcher, "backend", "") == "kubernetes",
            trouble=getattr(launcher, "trouble", ""),
        )

    def remember(self, members: list[Member], now: float) -> None:
        """Remember since when workers run and since when they have nothing to do."""
        loads = {member.name: self.cluster.load(member) for member in members if member.address}
        self.idle_since = {name: self.idle_since.get(name, now) for name, load in loads.items() if not load}
        awaited = [member for member in members if not member.address]
        self.queued = {member.name for member in awaited if member.launched.waits or member.name in self.queued}
        self.runs_since = {
            member.name: self.runs_since.get(member.name, now if member.name in self.queued else member.since)
            for member in awaited
            if not member.launched.waits
        }

    def waiting(self) -> tuple[dict[str, int], dict[str, int]]:
        """Count tasks that wait, by tag, and those of them that no worker has been given."""
        kinds = self.cluster.templates
        tags = {name: kind.tag for kind in kinds.values() for name in kind.resources}
        waiting, unplaced = dict.fromkeys(kinds, 0), dict.fromkeys(kinds, 0)
        first = next(iter(kinds), None)
        if first is None:
            return waiting, unplaced
        for task in list(self.cluster.scheduler.unrunnable):
            named = (tags[name] for name in task.resource_restrictions or () if name in tags)
            tag = next(named, first)
            waiting[tag] += 1
            unplaced[tag] += 1
        waiting[first] += len(self.cluster.scheduler.queued)
        for member in list(self.cluster.members.values()):
            if not member.leaving and member.tag in waiting:
                waiting[member.tag] += max(0, self.cluster.load(member) - member.template.slots)
        return waiting, unplaced

    def kind(self, tag: str, members: list[Member], waiting: int, unplaced: int, now: float) -> Kind:
        past, slots = self.of(tag), self.cluster.templates[tag].slots
        past.waits_since = (past.waits_since or now) if waiting else None
        connected = [member for member in members if member.tag == tag and member.address]
        return Kind(
            tag,
            Bounds.HAND,
            live=len(connected),
            idle=tuple(self.idle_since[member.name] for member in connected if member.name in self.idle_since),
            running=sum(min(self.cluster.load(member), slots) for member in connected),
            waiting=waiting,
            waits_since=past.waits_since,
            unplaced=unplaced,
            refusal=replace(past.refusal, given_up=tag in self.cluster.replacements.given_up) if past.refusal else None,
            starts_s=tuple(past.starts_s),
            cold=past.cold,
        )

    def awaited(self, members: list[Member], now: float) -> list[Awaited]:
        awaited, read = [], 0
        for member in members:
            if member.address:
                continue
            launched, since = member.launched, self.runs_since.get(member.name)
            words = ""
            if since is not None and now - since >= self.limits.silent and read < LOGS_READ:
                read += 1
                words = last_line(getattr(launched, "log", None))
            node = getattr(launched, "node", None) or getattr(getattr(launched, "state", None), "node", None) or ""
            awaited.append(
                Awaited(member.name, member.tag, member.since, launched.job or "", launched.waits, since, node, words)
            )
        return awaited

    def of(self, tag: str) -> Past:
        return self.past.setdefault(tag, Past())


def last_line(log: Path | None) -> str:
    """Return the last line of a worker's log that is more than Dask's own chatter."""
    lines = [] if log is None else [without_time(line) for line in last_lines(log, LAST_LINES)]
    lines = [line.strip() for line in lines if not CHATTER.search(line)]
    return lines[-1].removeprefix("scalable worker: ")[-LONGEST_LINE:] if lines else ""
