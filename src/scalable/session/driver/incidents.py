"""Opens a record for every end that a person will want to look into, and says in it later what became of the job.

``IncidentRows`` keeps incidents of some jobs in a store, too, where they are seen without the folder of their run.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scalable.engine.events import JobState, WorkerLost
from scalable.errors import ScalableError
from scalable.observe.fields import listed
from scalable.observe.incidents import NORMAL, Incident, IncidentFolder
from scalable.quantities import Duration, Memory
from scalable.session.driver.records import versions
from scalable.store import IncidentRow, Store
from scalable.wording import some_of
from scalable.worker.runner import ends
from scalable.worker.runner.evidence import last_lines

if TYPE_CHECKING:
    from scalable.cluster.workers import Member
    from scalable.observe.folders import RunFolder
    from scalable.observe.incidents import Incident
    from scalable.observe.journal import Journal

logger = logging.getLogger("scalable")

NAMED = 5  # jobs of a lost worker whose outcomes are told
IN_COLUMNS = ("id", "kind", "run", "worker", "started")  # of the store's table


@dataclass(slots=True)
class Unsettled:
    """An incident of jobs that have not ended."""

    number: int
    since: float
    """When it was found, by a clock that nobody sets."""
    jobs: int = 1
    outcomes: dict[str, str] = field(default_factory=dict)
    """What became of its jobs, of those that have ended."""

    def outcome(self) -> str:
        if self.jobs == 1:
            return next(iter(self.outcomes.values()))
        return some_of([f"{job}: {outcome}" for job, outcome in self.outcomes.items()], NAMED)


class Incidents:
    def __init__(self, folder: RunFolder, journal: Journal, stuck_after_s: float) -> None:
        self.run = folder
        self.folder = IncidentFolder(folder.path)
        self.journal = journal
        self.stuck_after_s = stuck_after_s
        self.unsettled: dict[str, list[Unsettled]] = {}
        """By job, until it ends."""
        self.listeners: list[Callable[[Incident], None]] = []
        """Hear of every incident, and again of what became of it: who keeps them where other machines can see them."""
        self.refused: set[tuple[str, int]] = set()
        """Places of forks that were told of already; a job may try again and again."""

    def opened(
        self,
        attempt: Mapping[str, Any],
        started: float,
        end: Mapping[str, Any],
        limit: Memory | None,
        address: str = "",
    ) -> None:
        """Record that an attempt ended with violence."""
        evidence = dict(end["evidence"] or {})
        evidence |= {"message": end["message"], "peak": end["peak"], "limit": limit.bytes if limit else None}
        if end["raised"]:
            evidence["raised"] = True
        stuck = end["cause"] == ends.STUCK
        late = max(0.0, end["silent_s"] - self.stuck_after_s) if stuck else None
        self.write(
            Incident(
                kind=end["cause"],
                run=attempt["run"],
                attempt=attempt["attempt"],
                worker=attempt["worker"],
                tag=attempt["tag"],
                host=host_of(address),
                started=started,
                found=time.time(),
                found_after_s=late,
                threshold_s=self.stuck_after_s if stuck else None,
                guilty=str(evidence.get("guilty") or end["message"]),
                evidence=evidence,
                done=tuple(end["done"]),
            )
        )

    def guarded(self, member: Member | None, end: Mapping[str, Any]) -> None:
        """Record that a guarded task ended with violence; its future has the error, nobody runs it again."""
        where = {"run": end["key"], "attempt": 1, "worker": member.name if member else "", "tag": None}
        limit = member.template.memory if member else None
        self.opened(where, time.time() - end["seconds"], end, limit)
        self.conclude(end["key"], "failed: its future raises the error")

    def worker_lost(
        self, lost: WorkerLost, tag: str, attempts: Sequence[Mapping[str, Any]], limit: Memory | None, address: str
    ) -> None:
        """Record that a worker is gone that nobody wanted to go, with these attempts on it."""
        jobs = [attempt["run"] for attempt in attempts]
        alone = attempts[0] if len(attempts) == 1 else {}
        evidence: dict[str, Any] = {"jobs": jobs, "log": list(last_lines(self.run.log(lost.worker)))}
        evidence |= {"peak": lost.peak.bytes if lost.peak else None, "limit": limit.bytes if limit else None}
        now = time.time()
        self.write(
            Incident(
                kind=lost.cause.value,
                run=alone.get("run", ""),
                attempt=alone.get("attempt", 0),
                worker=lost.worker,
                tag=tag,
                host=host_of(address),
                started=now,
                found=now,
                guilty=lost.message or lost.cause.value,
                evidence=evidence,
                outcome="" if jobs else "it had no jobs",
                severity=NORMAL,  # no code is to blame, however often it happens
            ),
            jobs,
        )

    def fork_refused(self, where: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        place = (str(facts.get("file")), int(facts.get("line") or 0))
        if place in self.refused:
            return
        self.refused.add(place)
        self.write(
            Incident(
                kind="fork refused",
                run=where["run"],
                attempt=where.get("attempt", 1),
                worker=where["worker"],
                tag=where["tag"],
                started=time.time(),
                found=time.time(),
                guilty=f"fork in {facts.get('function')} ({place[0]}:{place[1]})",
                evidence=dict(facts),
                done=("the fork was refused",),
            )
        )
        if "attempt" not in where:
            self.conclude(where["run"], "its future raises the error")

    def concluded(self, job: str, state: JobState, reason: str) -> None:
        """Record that a job will not be tried again."""
        if job in self.unsettled:
            since = min(each.since for each in self.unsettled[job])
            after = f"finished {Duration(time.monotonic() - since)} later"
            self.conclude(job, f"retried: {after}" if state is JobState.FINISHED else f"{state.value}: {reason}")

    def conclude(self, job: str, outcome: str) -> None:
        for each in self.unsettled.pop(job, []):
            each.outcomes[job] = outcome
            try:
                self.tell(self.folder.update(each.number, outcome=each.outcome()))
            except (ScalableError, OSError) as error:
                logger.warning("incident %d keeps its old outcome: %s", each.number, error)

    def write(self, incident: Incident, jobs: Sequence[str] | None = None) -> None:
        """Record an incident of these jobs, or of the one it names."""
        try:
            known = self.folder.open(incident)
        except (ScalableError, OSError) as error:  # a full disk must not end a run
            logger.warning("an incident cannot be recorded: %s", error)
            return
        jobs = [known.run] if jobs is None else jobs
        unsettled = Unsettled(known.id, time.monotonic(), len(jobs))
        for job in jobs:
            self.unsettled.setdefault(job, []).append(unsettled)
        self.tell(known)

    def tell(self, known: Incident) -> None:
        self.journal.write(
            "incident", id=known.id, incident=known.kind, run=known.run, worker=known.worker, tag=known.tag,
            text=known.guilty, severity=known.severity, outcome=known.outcome,
        )  # fmt: skip
        for listener in list(self.listeners):
            listener(known)


def host_of(address: str) -> str:
    """Return the machine in a worker's address, ``tcp://10.0.0.7:4711``; empty for one in this process."""
    return urlsplit(address).hostname or "" if "://" in address and not address.startswith("inproc") else ""


class IncidentRows:
    """Writes incidents in the background while it is entered; nothing is left to write when it is left."""

    def __init__(
        self, incidents: Incidents, store: Store, ours: Callable[[str], bool], sweep: str | None = None
    ) -> None:
        self.incidents = incidents
        self.store = store
        self.ours = ours
        """Says of a job whether its incidents are kept. There may be others' work in the same session."""
        self.sweep = sweep
        self.lock = asyncio.Lock()
        """What became of an incident arrives after the incident."""
        self.writing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> None:
        self.incidents.listeners.append(self.keep)

    async def __aexit__(self, *error: object) -> None:
        self.incidents.listeners.remove(self.keep)
        while self.writing:
            with suppress(asyncio.CancelledError):
                await asyncio.wait(set(self.writing))

    def keep(self, known: Incident) -> None:
        jobs = [str(job) for job in listed(known.evidence.get("jobs"))] or [known.run]
        ours = any(map(self.ours, jobs))
        if not ours and any(jobs):
            return
        run = self.incidents.run
        summary = {name: value for name, value in known.summary().items() if name not in IN_COLUMNS}
        row = IncidentRow(
            id=f"{run.run_id}/{known.id}", kind=known.kind, sweep=self.sweep if ours else None,
            started=known.started or known.found or time.time(), run=known.run or None, worker=known.worker or None,
            summary={**summary, "folder": f"{socket.gethostname()}:{run.path}", "versions": versions()},
        )  # fmt: skip
        task = asyncio.ensure_future(self.put(row))
        self.writing.add(task)
        task.add_done_callback(self.writing.discard)

    async def put(self, row: IncidentRow) -> None:
        async with self.lock:
            receipt = await asyncio.to_thread(self.store.put_incident, row)
        if not receipt.safe:
            logger.warning("incident %s is not in the store: %s", row.id, receipt.reason)
