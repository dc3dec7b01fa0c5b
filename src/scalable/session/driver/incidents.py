"""Opens a record for every end that a person will want to look into, and says in it later what became of the job."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scalable.engine.events import JobState
from scalable.errors import ScalableError
from scalable.observe.incidents import Incident, IncidentFolder
from scalable.quantities import Duration, Memory
from scalable.worker.runner import ends

if TYPE_CHECKING:
    from scalable.cluster.workers import Member
    from scalable.observe.folders import RunFolder
    from scalable.observe.journal import Journal

logger = logging.getLogger("scalable")


class Incidents:
    def __init__(self, folder: RunFolder, journal: Journal, stuck_after_s: float) -> None:
        self.folder = IncidentFolder(folder.path)
        self.journal = journal
        self.stuck_after_s = stuck_after_s
        self.unsettled: dict[str, list[tuple[int, float]]] = {}
        """Incidents of jobs that have not ended, with the moment each was found."""
        self.also: Callable[[Incident], None] | None = None
        """Hears of every incident, and again of what became of it: who keeps them where other machines can see them."""
        self.refused: set[tuple[str, int]] = set()
        """Places of forks that were told of already; a job may try again and again."""

    def opened(
        self,
        attempt: Mapping[str, Any],
        started: float,
        told: Mapping[str, Any],
        limit: Memory | None,
        address: str = "",
    ) -> None:
        """An attempt ended with violence."""
        evidence = dict(told["evidence"] or {})
        evidence |= {"message": told["message"], "peak": told["peak"], "limit": limit.bytes if limit else None}
        if told["raised"]:
            evidence["raised"] = True
        stuck = told["cause"] == ends.STUCK
        late = max(0.0, told["silent_s"] - self.stuck_after_s) if stuck else None
        self.write(
            Incident(
                kind=told["cause"],
                run=attempt["run"],
                attempt=attempt["attempt"],
                worker=attempt["worker"],
                tag=attempt["tag"],
                host=host_of(address),
                started=started,
                found=time.time(),
                found_after_s=late,
                threshold_s=self.stuck_after_s if stuck else None,
                guilty=str(evidence.get("guilty") or told["message"]),
                evidence=evidence,
                done=tuple(told["done"]),
            )
        )

    def guarded(self, member: Member | None, told: Mapping[str, Any]) -> None:
        """A guarded task ended with violence; its future has the error, nobody runs it again."""
        where = {"run": told["key"], "attempt": 1, "worker": member.name if member else "", "tag": None}
        limit = member.template.memory if member else None
        self.opened(where, time.time() - told["seconds"], told, limit)
        self.conclude(told["key"], "failed: its future raises the error")

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
        """A job will not be tried again."""
        if job in self.unsettled:
            found = min(moment for _, moment in self.unsettled[job])
            after = f"finished {Duration(time.monotonic() - found)} later"
            self.conclude(job, f"retried: {after}" if state is JobState.FINISHED else f"{state.value}: {reason}")

    def conclude(self, job: str, outcome: str) -> None:
        for number, _ in self.unsettled.pop(job, []):
            try:
                self.tell(self.folder.update(number, outcome=outcome))
            except (ScalableError, OSError) as error:
                logger.warning("incident %d keeps its old outcome: %s", number, error)

    def write(self, incident: Incident) -> None:
        try:
            known = self.folder.open(incident)
        except (ScalableError, OSError) as error:  # a full disk must not end a run
            logger.warning("an incident cannot be recorded: %s", error)
            return
        self.unsettled.setdefault(known.run, []).append((known.id, time.monotonic()))
        self.tell(known)

    def tell(self, known: Incident) -> None:
        self.journal.write(
            "incident", id=known.id, incident=known.kind, run=known.run, worker=known.worker, tag=known.tag,
            text=known.guilty, severity=known.severity, outcome=known.outcome,
        )  # fmt: skip
        if self.also is not None:
            self.also(known)


def host_of(address: str) -> str:
    """The machine in a worker's address, ``tcp://10.0.0.7:4711``; nothing for one in this process."""
    return urlsplit(address).hostname or "" if "://" in address and not address.startswith("inproc") else ""
