"""The attempts that are under way: given to a worker's supervisor, seen from outside, and how each of them ends."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scalable.engine.ending import FREE
from scalable.engine.events import CpuSeen, Event, JobFinished, JobLost, JobState, Loss, Progressed, WorkerLost
from scalable.observe.files import append_private
from scalable.quantities import Memory
from scalable.session.driver.execution import Conversation, JobCall
from scalable.session.driver.incidents import Incidents
from scalable.worker.runner import ends
from scalable.worker.runner.calls import TaskResult

if TYPE_CHECKING:
    from scalable.cluster.cluster import TaggedCluster
    from scalable.cluster.workers import Member
    from scalable.engine import Engine
    from scalable.observe.folders import RunFolder
    from scalable.observe.journal import Journal
    from scalable.session.driver.keeping import AttemptLedger

logger = logging.getLogger("scalable")

PROGRESS_EVERY_S = 2.0  # how often the journal says how far a job is
LOADED_S = 0.01  # code that is loaded already takes less; imports take more
LARGEST_SAVED = 64 * 2**20  # bytes of a job's work that are kept so that it can be run again under a debugger


@dataclass(slots=True, eq=False)
class LiveAttempt:
    job: str
    number: int
    worker: str
    tag: str
    address: str
    started: float
    """Seconds since the epoch."""
    since: float
    """When it started, by a clock that nobody sets."""
    content: bytes
    begun: bool = True
    """Not if it waits on its worker behind others."""
    handed: bool = False
    """Its worker has it; before, its start is noted in the store."""
    progress_written: float = 0.0
    """When the journal was last told how far it is."""
    seen: dict[str, Any] = field(default_factory=dict)
    """The latest sign of it."""

    @property
    def key(self) -> str:
        return f"{self.job}-attempt-{self.number}"

    @property
    def facts(self) -> dict[str, Any]:
        return {"run": self.job, "attempt": self.number, "worker": self.worker, "tag": self.tag}


class Attempts:
    def __init__(
        self,
        cluster: TaggedCluster,
        engine: Engine,
        journal: Journal,
        folder: RunFolder,
        handle: Callable[[Event], None],
    ) -> None:
        self.cluster = cluster
        self.engine = engine
        self.journal = journal
        self.folder = folder
        self.handle = handle
        self.under_way: dict[str, LiveAttempt] = {}
        """By key."""
        self.by_tag: Counter[str] = Counter()
        self.on_worker: Counter[str] = Counter()
        """How many each worker has, by its address."""
        self.guarded: dict[str, dict[str, Any]] = {}
        """The latest signs of guarded tasks, by key."""
        self.values: dict[str, Any] = {}
        self.lost_work: dict[str, bytes] = {}
        """Of jobs that lost an attempt, until they end."""
        self.incidents = Incidents(folder, journal, engine.view.rules.policies.stuck.after.seconds)
        self.conversation = Conversation(cluster, self.report)
        self.ledgers: dict[str, AttemptLedger] = {}
        """By job: who counts its attempts in the store."""
        self.handing: deque[tuple[LiveAttempt, asyncio.Task[None] | None]] = deque()
        """In the order in which workers are to begin them; what must be noted first has a task."""

    def close(self) -> None:
        self.handing.clear()
        self.conversation.close()

    # Out

    def start(self, job: str, number: int, worker: str, work: JobCall) -> None:
        member = self.cluster.members.get(worker)
        if member is None or member.address is None:
            return  # it is gone; the engine hears of that by itself
        past = self.engine.view.jobs[job].past
        if past and past[-1].cause not in FREE:
            self.journal.write("retry", run=job, tag=member.tag, cause=past[-1].cause.value)
        try:
            content = work.packed()
        except Exception as error:  # noqa: BLE001 - pickling calls the user's own code
            message = f"what it is given cannot be sent to a worker: {ends.error_text(error)}"
            self.handle(JobLost(job, number, Loss.RAISED, None, message))
            return
        attempt = LiveAttempt(job, number, worker, member.tag, member.address, time.time(), time.monotonic(), content)
        begins = self.engine.view.jobs[job].state is not JobState.GIVEN
        self.under_way[attempt.key] = attempt
        self.by_tag[attempt.tag] += 1
        self.on_worker[attempt.address] += 1
        self.cluster.scheduler.serving.add(attempt.address)
        ledger = self.ledgers.get(job)
        lease = ledger.sharing.lease(job) if ledger is not None and ledger.sharing is not None else None
        attempt.begun = begins and lease is None
        if attempt.begun:
            self.journal.write("attempt-started", **attempt.facts)
        noted = None
        if lease is not None:
            noted = asyncio.ensure_future(self.begin_leased(attempt, lease, begins=begins))
        elif begins and ledger is not None:
            noted = asyncio.ensure_future(ledger.begin(job, len(past), attempt.started))
        if noted is not None:
            noted.add_done_callback(self.hand_over)
        self.handing.append((attempt, noted))
        self.hand_over()

    async def begin_leased(self, attempt: LiveAttempt, lease: asyncio.Future[bool], *, begins: bool) -> None:
        """Begin an attempt once its job is leased; one that another run computes has been forgotten by then."""
        if not await lease or self.under_way.get(attempt.key) is not attempt or not begins:
            return
        self.begin(attempt, 0.0)
        if (ledger := self.ledgers.get(attempt.job)) is not None:
            await ledger.begin(attempt.job, len(self.engine.view.jobs[attempt.job].past), attempt.started)

    def forget(self, jobs: Iterable[str]) -> None:
        """Drop attempts that no worker has got yet: another run computes their jobs."""
        for job in jobs:
            key = f"{job}-attempt-{self.engine.view.jobs[job].attempt}"
            if (attempt := self.under_way.get(key)) is not None and not attempt.handed:
                self.end(attempt, Loss.STOPPED.value)

    def hand_over(self, noted: object = None) -> None:
        """Give workers what is noted in the store, and what only waits on them and is noted when it begins."""
        while self.handing and ((first := self.handing[0][1]) is None or first.done()):
            attempt = self.handing.popleft()[0]
            attempt.handed = True
            if self.under_way.get(attempt.key) is attempt:
                self.conversation.give(attempt.address, attempt.key, attempt.content)

    def withdraw(self, attempt: LiveAttempt, cause: Loss, text: str) -> None:
        """End an attempt that its worker has not been given yet."""
        self.end(attempt, cause.value, message=text)
        self.handle(JobLost(attempt.job, attempt.number, cause, None, text))

    def take_back(self, job: str, number: int) -> None:
        if attempt := self.under_way.get(f"{job}-attempt-{number}"):
            if attempt.handed:
                self.conversation.take_back(attempt.address, attempt.key)
            else:
                self.withdraw(attempt, Loss.STOPPED, "taken back before it began")

    def kill(self, job: str, number: int, cause: Loss) -> None:
        """Ask its supervisor to look at it, kill it and report that as the end; or that it is alive after all."""
        if attempt := self.under_way.get(f"{job}-attempt-{number}"):
            policy = self.engine.view.rules.policies.stuck
            silent_for, text = None, f"killed on {attempt.worker}"
            if cause is Loss.STUCK:
                silent_for = policy.after.seconds
                text = f"no sign of life for {silent_for:g} s"
            elif cause is Loss.TIMED_OUT:
                text = f"it ran for the {policy.walltime} of policies.stuck.walltime without a report of progress"
            if not attempt.handed:
                self.withdraw(attempt, Loss.STOPPED if cause is Loss.STUCK else cause, text)
                return
            self.conversation.kill(attempt.address, attempt.key, cause.value, text, silent_for)

    def abandon(self, lost: WorkerLost, tag: str, *, wanted: bool) -> None:
        """Give up attempts on a worker that is gone; unless that was wanted, it is an incident."""
        abandoned = [attempt for attempt in self.under_way.values() if attempt.worker == lost.worker]
        if not wanted:
            begun = [attempt.facts for attempt in abandoned if attempt.begun]
            limit, address = self.cluster.templates[tag].memory, abandoned[0].address if abandoned else ""
            self.incidents.worker_lost(lost, tag, begun, limit, address)
        for attempt in abandoned:
            self.end(
                attempt, lost.cause.value, peak=lost.peak.bytes if lost.peak else None,
                message=lost.message or lost.cause.value,
            )  # fmt: skip
        self.guarded = {key: seen for key, seen in self.guarded.items() if seen["worker"] != lost.worker}

    # In

    def report(
        self,
        address: str,
        ends: tuple[dict[str, Any], ...] = (),
        signs: tuple[dict[str, Any], ...] = (),
        forks: tuple[tuple[str, dict[str, Any]], ...] = (),
        incidents: tuple[dict[str, Any], ...] = (),
    ) -> None:
        member = next((member for member in self.cluster.members.values() if member.address == address), None)
        for key, facts in forks:
            self.forked(member, key, facts)
        for sign in signs:
            self.sign(member, sign)
        for incident in incidents:
            self.guarded.pop(incident["key"], None)
            self.incidents.guarded(member, incident)
        for end in ends:
            if (attempt := self.under_way.get(end["key"])) is not None:
                self.ended(attempt, end)

    def ended(self, attempt: LiveAttempt, end: dict[str, Any]) -> None:
        cause, message = end["cause"], end["message"]
        peak = Memory(end["peak"]) if end["peak"] else None
        value: Any = None
        if not cause:
            try:
                value = pickle.loads(end["value"])
            except Exception as error:  # noqa: BLE001 - it calls the value's own code
                cause, message = ends.RAISED, f"its result cannot be read here: {ends.error_text(error)}"
        facts: dict[str, Any] = {"raised": True} if end["raised"] else {}
        if end["load_s"] >= LOADED_S:
            facts["load_s"] = round(end["load_s"], 6)
        if isinstance(value, TaskResult) and value.recalled:
            facts["recalled"] = True
        self.end(attempt, cause, round(end["seconds"], 6), end["peak"], message, round(end["cpu_s"], 4), **facts)
        if cause in ends.VIOLENT:
            limit = self.cluster.templates[attempt.tag].memory
            self.incidents.opened(attempt.facts, attempt.started, end | {"message": message}, limit, attempt.address)
        if cause:
            self.lost_work[attempt.job] = attempt.content
            self.handle(JobLost(attempt.job, attempt.number, Loss(cause), peak, message, end["seconds"]))
        else:
            self.values[attempt.job] = value
            self.handle(JobFinished(attempt.job, attempt.number, peak, end["seconds"]))

    def end(
        self, attempt: LiveAttempt, cause: str, seconds: float | None = None, peak: int | None = None,
        message: str = "", cpu_s: float | None = None, **facts: Any,
    ) -> None:  # fmt: skip
        del self.under_way[attempt.key]
        self.by_tag[attempt.tag] -= 1
        self.on_worker[attempt.address] -= 1
        if not self.on_worker[attempt.address]:
            del self.on_worker[attempt.address]
            self.cluster.scheduler.serving.discard(attempt.address)
        if not attempt.begun and not seconds and cause:
            return  # taken back before it began: nothing happened that anyone would want to read of
        self.begin(attempt, seconds or 0.0)
        if cause and (ledger := self.ledgers.get(attempt.job)) is not None:
            ledger.noted(attempt.job, len(self.engine.view.jobs[attempt.job].past), attempt.started, cause)
        self.journal.write(
            "attempt-ended", **attempt.facts, outcome=cause or "finished", seconds=seconds, cpu_s=cpu_s, peak=peak,
            message=message, **facts,
        )  # fmt: skip

    def sign(self, member: Member | None, sign: dict[str, Any]) -> None:
        attempt = self.under_way.get(sign["key"])
        if attempt is None:
            now = time.time()
            self.guarded = {key: seen for key, seen in self.guarded.items() if now - seen["at"] < STALE_S}
            if member is not None:
                self.guarded[sign["key"]] = {**sign, "worker": member.name, "tag": member.tag, "at": now}
            return
        attempt.seen = sign
        if not sign["waits"] and not attempt.begun:
            self.begin(attempt, sign["seconds"])
            if (ledger := self.ledgers.get(attempt.job)) is not None:
                ledger.noted(attempt.job, len(self.engine.view.jobs[attempt.job].past), attempt.started)
        if sign["progressed"]:
            now = self.engine.view.handled
            until = now + sign["left_s"] if sign["left_s"] is not None else None
            self.handle(Progressed(attempt.job, attempt.number, until, sign["reports"], sign["step"]))
        elif sign["worked"] or sign["waits"]:
            self.handle(CpuSeen(attempt.job, attempt.number))
        if sign["step"] is not None and time.monotonic() - attempt.progress_written >= PROGRESS_EVERY_S:
            attempt.progress_written = time.monotonic()
            how_far = {name: sign[name] for name in ("step", "of", "note", "memory")}
            self.journal.write("progress", **attempt.facts, **how_far)

    def begin(self, attempt: LiveAttempt, ago: float) -> None:
        if not attempt.begun:
            attempt.begun, attempt.started, attempt.since = True, time.time() - ago, time.monotonic() - ago
            self.journal.write("attempt-started", t=round(attempt.started, 6), **attempt.facts)

    def forked(self, member: Member | None, key: str, facts: dict[str, Any]) -> None:
        """Record that a fork with threads was refused or warned of, or what the job's code has to note."""
        attempt = self.under_way.get(key)
        where = attempt.facts if attempt else {"run": key, "worker": member.name if member else "", "tag": None}
        if event := facts.get("event"):
            self.journal.write(
                "note", event=event, **{name: facts[name] for name in facts if name not in RESERVED}, **where
            )
            return
        self.journal.write("fork", **where, **facts)
        if facts.get("policy") == "deny" and not facts.get("allowed"):
            self.incidents.fork_refused(where, facts)

    def leave(self, ledger: AttemptLedger) -> None:
        """Note what is still under way as stopped, which costs no retry: its sweep or task was ended by us."""
        for attempt in [
            live for live in self.under_way.values() if self.ledgers.get(live.job) is ledger and live.begun
        ]:
            past = len(self.engine.view.jobs[attempt.job].past)
            ledger.noted(attempt.job, past, attempt.started, Loss.STOPPED.value)
        self.ledgers = {job: each for job, each in self.ledgers.items() if each is not ledger}

    # What others want to know

    def serving(self) -> set[str]:
        """Return workers that have jobs."""
        return {attempt.worker for attempt in self.under_way.values()}

    def activity(self) -> list[dict[str, Any]]:
        """Return what runs now, and how far it is."""
        now = time.time()
        jobs = [
            {
                **attempt.facts,
                "started": attempt.started,
                "seconds": time.monotonic() - attempt.since,
                **{name: attempt.seen.get(name) for name in SEEN},
            }
            for attempt in self.under_way.values()
        ]
        return jobs + [
            {
                "run": key,
                "attempt": 1,
                "worker": seen["worker"],
                "tag": seen["tag"],
                "started": seen["at"] - seen["seconds"],
                "seconds": now - seen["at"] + seen["seconds"],
                **{name: seen.get(name) for name in SEEN},
            }
            for key, seen in self.guarded.items()
            if now - seen["at"] < STALE_S
        ]

    def key_of(self, job: str) -> str | None:
        """Return under which name a worker knows a job that it has."""
        return next((attempt.key for attempt in self.under_way.values() if attempt.job == job), None)

    def job_ended(self, job: str, state: JobState, reason: str) -> None:
        """Keep what a job did that failed for good, and say in its incidents what became of it."""
        self.ledgers.pop(job, None)
        content = self.lost_work.pop(job, None)
        self.incidents.concluded(job, state, reason)
        if content is None or state is JobState.FINISHED or len(content) > LARGEST_SAVED:
            return
        path = self.folder.work(job)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)  # arguments may be private
            path.unlink(missing_ok=True)
            with os.fdopen(append_private(path), "wb") as file:
                file.write(content)
        except OSError as error:
            logger.warning("%s cannot be kept for debugging: %s", job, error.strerror)


SEEN = ("idle_s", "step", "of", "note", "memory", "cpu_s", "pid")
RESERVED = ("event", "kind", "t", "run", "attempt", "worker", "tag")  # names that a note's facts cannot have
STALE_S = 10.0  # a guarded task that was not seen for so long has ended
