"""Connects the engine to a live cluster: what happens becomes events, what the engine answers is carried out.

Everything here runs in the cluster's event loop, so nothing needs a lock. Work that was handed to Dask directly is not
the engine's to start, but it is counted, and workers are asked for and given back for its sake.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from scalable.cluster.base import LaunchRefused
from scalable.cluster.scheduler import give_up, stop_all
from scalable.engine import AdaptiveScaler, Engine, ScaleDecision
from scalable.engine.events import (
    AddWorkers,
    BoundsSet,
    Event,
    HoursChanged,
    Instruction,
    JobEnded,
    JobState,
    KillJob,
    Loss,
    OutsideWork,
    Paused,
    RemoveWorker,
    Resumed,
    RowPersisted,
    SpendChanged,
    StartJob,
    SubmittedSweep,
    SweepAdmitted,
    SweepKind,
    SweepSubmitted,
    TakeBack,
    Tick,
    WorkerEnds,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkersGivenUp,
    WorkersRefused,
    WorkersWithdrawn,
)
from scalable.errors import ScalableError, UsageError
from scalable.findings import Finding
from scalable.observe.redact import KNOWN
from scalable.quantities import Memory
from scalable.session.driver.attempts import Attempts
from scalable.session.driver.clock import SteadyClock
from scalable.session.driver.execution import ANSWER_WITHIN_S, JobCall, runner_settings
from scalable.session.driver.recorder import Look, look
from scalable.session.money.costs import meter
from scalable.session.money.hours import HoursMeter
from scalable.session.operate.control import Control
from scalable.session.operate.measures import STORE, SessionMeasures
from scalable.session.sweep.slots import CLIMBS
from scalable.store import Fate
from scalable.worker.runner import ends

if TYPE_CHECKING:
    from scalable.cluster.cluster import TaggedCluster
    from scalable.cluster.workers import Member
    from scalable.observe.folders import RunFolder
    from scalable.observe.journal import Journal
    from scalable.session.driver.recorder import TaskRecorder
    from scalable.session.driver.records import EventLog
    from scalable.session.money.hours import Allowance
    from scalable.session.money.tariffs import Tariff
    from scalable.session.operate.live import Live
    from scalable.store import Receipt, Store

logger = logging.getLogger("scalable")

LOOK_EVERY_S = 0.5  # at work that the engine did not start
GAUGE_EVERY_S = 2.0
SAME_END_S = 2.0  # an end of an allocation that differs by less is the same one
SLOT = "place"  # on whose behalf nothing is started while a sweep has lost its own
UNWANTED = "removed: fewer are wanted"
EXPLAINED = ("workers-refused", "scale-up-late")  # alerts that an onlooker explains better


class Onlooker(Protocol):
    """Is shown every look at the cluster."""

    def __call__(self, seen: Look, *, last: bool = False) -> None: ...

    def close(self) -> None: ...


class Driver:
    def __init__(
        self,
        cluster: TaggedCluster,
        engine: Engine,
        journal: Journal,
        recorder: TaskRecorder,
        folder: RunFolder,
        *,
        tariff: Tariff | None = None,
        allowance: Allowance | None = None,
        scaler: AdaptiveScaler | None = None,
    ) -> None:
        self.cluster = cluster
        self.engine = engine
        self.journal = journal
        self.recorder = recorder
        self.scaler = scaler
        self.now = SteadyClock(time.monotonic)
        self.events: deque[Event] = deque()
        self.handling = False
        self.complaints: set[tuple[str, type[Exception]]] = set()
        self.works: dict[str, JobCall] = {}
        self.waiters: dict[str, asyncio.Future[tuple[JobState, Any]]] = {}
        self.attempts = Attempts(cluster, engine, journal, folder, self.handle)
        self.control = Control(self, folder)
        self.launching = 0
        self.requests: list[tuple[str, ...] | None] = []
        """Workers of each request of the engine, in order; None while the backend has not answered."""
        self.halts: dict[str, Paused] = {}
        """Who wants nothing more to be started, the operator or a lost slot: one going on does not undo the other."""
        self.on_heavy: Callable[[str], None] = lambda sweep: None
        """Called when a sweep has only work left for the larger profile, or has nothing else from the start."""
        self.behind: tuple[str, float] = ("", 0.0)
        """What people know of rows that the store's database did not take, and since when."""
        self.refusals: list[str] = []
        """Why workers did not come, oldest first."""
        self.outside: dict[str, OutsideWork] = {}
        self.ends: dict[str, float | None] = {}
        """When work must be over on workers that joined, as the engine knows it."""
        self.gauged: tuple[float, Any] = (0.0, None)
        self.counted: dict[str, Any] = {}
        """Workers and tasks by tag, at the last look."""
        self.measures = SessionMeasures(self)
        self.on_look: Onlooker | None = None
        """Says why workers do not come and work waits."""
        self.recording: EventLog | None = None
        """Writes down what the engine is told and answers."""
        self.live: Live | None = None
        """Shows it to those who look from outside."""
        self.meter = meter(cluster, journal, tariff, self.spent) if tariff is not None else None
        """Counts what is paid, where anything is."""
        self.hours = HoursMeter(cluster, journal, allowance, self.used) if allowance is not None else None
        """Counts what is used of an allocation, where there is one."""
        self.closed = False

    async def begin(self) -> None:
        self.cluster.replacements.wanted = False  # the engine decides that
        if self.meter is not None:
            self.meter.begin()
        if self.hours is not None:
            self.hours.begin()
        self.cluster.listeners.append(self.heard)
        self.journal.listeners.append(self.measures.heard)
        self.handle(Tick())
        self.cluster.keep(self.run())

    async def run(self) -> None:
        """Time passes: look at what the engine cannot see, and wake it when it wants to be woken."""
        while not self.closed:
            for step in (self.look, self.look_at_ends, self.control.poll, self.wake):
                try:
                    step()
                except Exception as error:  # noqa: BLE001 - else retries and stuck jobs would wait for ever
                    self.complain("the driver stumbled", error)
            await asyncio.sleep(min(LOOK_EVERY_S, max(0.01, self.engine.next_wake() - self.now())))

    def wake(self) -> None:
        if self.engine.next_wake() <= self.now():
            self.handle(Tick())

    def complain(self, what: str, error: Exception) -> None:
        """Log once of each kind: it may happen twice a second."""
        if (kind := (what, type(error))) not in self.complaints:
            self.complaints.add(kind)
            logger.error("%s: %s; it goes on", what, ends.error_text(error), exc_info=error)

    async def close(self) -> None:
        """Decide nothing more; workers that go from now on go with the session."""
        self.closed = True
        if self.on_look is not None:
            self.on_look(self.seen(), last=True)  # what happened since the last look is often why it is closed
            self.on_look.close()
        if self.live is not None:
            self.live.close()  # not in a thread: a script that forgot to close ends where none can be started
        with suppress(ValueError):  # it was interrupted before it began
            self.cluster.listeners.remove(self.heard)
        for waiter in self.waiters.values():
            if not waiter.done():
                waiter.set_result((JobState.STOPPED, "the session was closed"))
        self.control.close()
        self.attempts.close()
        if self.meter is not None:
            self.meter.account(force=True)
            self.meter.close()
        if self.hours is not None:
            self.hours.close()
        self.gauge(self.seen(), force=True)

    # What callers ask for

    async def submit(
        self, sweep: SubmittedSweep, works: Mapping[str, JobCall]
    ) -> dict[str, asyncio.Future[tuple[JobState, Any]]]:
        """Give the engine jobs to carry out; the end of each arrives in its future as (state, value or reason)."""
        loop = asyncio.get_running_loop()
        self.works |= works
        futures = {job.id: loop.create_future() for job in sweep.jobs}
        self.waiters |= futures
        self.handle(SweepSubmitted(sweep))
        return futures

    def halt(self, who: str, wanted: Paused | None) -> None:
        """Start nothing more on somebody's behalf, or no longer on theirs."""
        before = dict(self.halts)
        self.halts.pop(who, None)
        if wanted is not None:
            self.halts[who] = wanted
        if self.halts == before:
            return
        reasons = "; ".join(each.reason for each in self.halts.values())
        drop = any(each.drop_workers for each in self.halts.values())
        self.handle(Paused(reasons, drop_workers=drop) if self.halts else Resumed())

    def slot_changed(self, lost: str) -> None:
        """Take note that a sweep lost its slot among other processes, or has it again; called from any thread."""
        if self.cluster.loop is not None:
            self.cluster.loop.add_callback(self.place_told, lost)

    def place_told(self, lost: str) -> None:
        if lost:
            self.tell(Finding.warning("place-awaited" if lost == CLIMBS else "place-lost", "", lost))
        self.halt(SLOT, Paused(lost, drop_workers=lost == CLIMBS) if lost else None)

    async def set_counts(self, counts: Mapping[str, int], reason: str) -> None:
        """Keep exactly so many workers of these tags from now on; surplus ones go at once, idle ones first."""
        for tag, count in counts.items():
            await asyncio.sleep(0)  # workers that the engine gave back by itself are leaving after that
            surplus = self.staying(tag) - count
            chosen = self.cluster.choose(surplus, tag) if surplus > 0 else []
            if chosen:
                self.journal.write("scale", direction="down", tag=tag, count=len(chosen), reason=reason)
            self.handle(BoundsSet(tag, count, count, tuple(member.name for member in chosen)))
            for member in chosen:
                self.cluster.keep(self.cluster.dismiss(member, UNWANTED))
            await asyncio.sleep(0)
        going = [m for m in self.cluster.members.values() if m.tag in counts and m.leaving]
        await asyncio.gather(*(member.gone.wait() for member in going))

    def staying(self, tag: str) -> int:
        """Return workers of a tag, started or asked for, that were not told to go."""
        return sum(1 for m in self.cluster.members.values() if m.tag == tag and not m.leaving)

    async def settled(self) -> None:
        """Wait until every request for workers was accepted or refused."""
        while self.launching:
            await asyncio.sleep(0.005)

    # Events in, instructions out

    def handle(self, event: Event) -> None:
        """Handle one event after the other, also those that carrying out an instruction leads to."""
        self.events.append(event)
        if self.handling:
            return
        self.handling = True
        try:
            while self.events:
                next_event, now = self.events.popleft(), self.now()
                instructions = self.engine.handle(next_event, now)
                if self.recording is not None:
                    self.recording(now, next_event, instructions)
                removed = Counter((each.tag, each.reason) for each in instructions if isinstance(each, RemoveWorker))
                for (tag, reason), count in removed.items():
                    self.journal.write("scale", direction="down", tag=tag, count=count, reason=reason)
                for instruction in instructions:
                    self.apply(instruction)
        finally:
            self.handling = False

    def apply(self, instruction: Instruction) -> None:
        match instruction:
            case AddWorkers(tag, count, reason):
                self.journal.write("scale", direction="up", tag=tag, count=count, reason=reason)
                self.launching += 1
                self.requests.append(None)
                self.cluster.keep(self.add(tag, count, len(self.requests) - 1))
            case RemoveWorker(worker, _, reason):
                if member := self.cluster.members.get(worker):
                    self.cluster.keep(self.cluster.dismiss(member, reason))
            case StartJob(job, attempt, worker):
                self.attempts.start(job, attempt, worker, self.works[job])
            case TakeBack(job, attempt, _):
                self.attempts.take_back(job, attempt)
            case KillJob(job, attempt, _, cause):
                self.attempts.kill(job, attempt, cause)
            case JobEnded(job, state, reason):
                self.journal.write("run-ended", run=job, state=state.value, reason=reason)
                self.attempts.job_ended(job, state, reason)
                self.works.pop(job, None)
                self.recorder.count(self.engine.view.jobs[job].tag, state)
                waiter = self.waiters.pop(job, None)
                if waiter is not None and not waiter.done():
                    value = self.attempts.values.pop(job, None)
                    waiter.set_result((state, value if state is JobState.FINISHED else reason))
            case SweepAdmitted(sweep, SweepKind.HEAVY):
                self.on_heavy(sweep)
            case WorkersGivenUp(tag, reason):
                give_up(self.cluster, tag, reason)
            case Finding(code, message=message):
                self.tell(instruction)
                if self.on_look is None or code not in EXPLAINED:
                    logger.warning("%s", message)

    def tell(self, finding: Finding) -> None:
        """Write into the journal what somebody should know; its path is a job or empty."""
        self.journal.write("alert", **finding.to_record("alert"), run=finding.path or None)

    async def add(self, tag: str, count: int, request: int) -> None:
        try:
            await self.cluster.launch(count, self.cluster.templates[tag], partly=True)
        except LaunchRefused:
            pass  # the cluster has told its listeners, this driver among them
        except UsageError:
            assert self.cluster.status.name != "running"  # it was closed in the meantime
        finally:
            self.launching -= 1
            known = {name for names in self.requests for name in names or ()}
            self.requests[request] = tuple(m.name for m in self.cluster.members.values() if m.name not in known)

    def spent(self, change: SpendChanged) -> None:
        """Tell the engine what is paid, and which of its requests that includes."""
        self.handle(replace(change, covered=self.covered()))

    def used(self, change: HoursChanged) -> None:
        """Tell the engine what is used of the allocation; waiting workers use nothing, so every request is covered."""
        self.handle(replace(change, covered=len(self.requests)))

    def covered(self) -> int:
        """Return how many requests for workers, from the first on, the meter's figures include."""
        assert self.meter is not None
        members, meter = self.cluster.members, self.meter
        for number, names in enumerate(self.requests):
            if names is None or any(name in members and not meter.counts(name) for name in names):
                return number
        return len(self.requests)

    def heard(self, kind: str, facts: dict[str, Any]) -> None:
        """Take what the cluster tells of its workers."""
        match kind:
            case "worker-joined":
                self.configure(self.cluster.members[facts["worker"]])
                left_s = self.left_s(self.cluster.members[facts["worker"]])
                self.handle(WorkerJoined(facts["worker"], facts["tag"], facts.get("allocation", ""), left_s))
            case "worker-leaving":
                self.handle(WorkerLeaving(facts["worker"]))
            case "worker-removed" if facts["worker"] not in self.engine.view.workers:
                self.handle(WorkersWithdrawn(facts["tag"], 1))
            case "worker-lost" | "worker-removed":
                cause = Loss(facts["cause"]) if kind == "worker-lost" else Loss.STOPPED
                peak = Memory(facts["peak"]) if "peak" in facts else None
                lost = WorkerLost(facts["worker"], cause, peak, facts.get("detail", ""))
                self.attempts.abandon(lost, facts["tag"], wanted=kind == "worker-removed")
                self.handle(lost)
            case "workers-refused":
                self.refusals.append(facts["reason"])
                ended = Loss(facts["cause"]) if "cause" in facts else None
                self.handle(WorkersRefused(facts["tag"], facts["count"], facts["reason"], ended))

    # Workers and what runs on them

    def left_s(self, member: Member) -> float | None:
        """Return for how long work can run on a worker, as its backend says now; None if it does not say."""
        ends_at = self.ends[member.name] = member.work_ends_at
        return max(0.0, ends_at - time.time()) if ends_at is not None else None

    def look_at_ends(self) -> None:
        """Tell the engine when allocations end that it was told otherwise of, or nothing."""
        for member in list(self.cluster.members.values()):
            if member.name not in self.ends:
                continue
            before, ends_at = self.ends[member.name], member.work_ends_at
            if ends_at is not None and (before is None or abs(ends_at - before) > SAME_END_S):
                left_s = self.left_s(member)
                assert left_s is not None, "it was known a line ago"
                self.handle(WorkerEnds(member.name, left_s))
        self.ends = {name: ends_at for name, ends_at in self.ends.items() if name in self.cluster.members}

    def configure(self, member: Member) -> None:
        """Tell a worker how its runners are to be."""
        KNOWN.add(member.template.env)
        settings = runner_settings(member, self.engine.view.rules.policies, self.attempts.folder.log(member.name))
        self.attempts.conversation.configure(str(member.address), settings)

    def stored(self, worker: str | None, rows: int, receipt: Receipt, store: Store) -> None:
        """Take note that computed rows are in the store, or wait there for its database, or could not be kept."""
        self.measures.dependencies.stored(receipt, store)
        if receipt.safe:
            kept = f"computed rows wait in {receipt.kept_in}; {receipt.reason}" if receipt.fate is Fate.KEPT else ""
            self.store_trouble(kept)
        if receipt.safe and worker:
            self.measures.stored(worker, rows)
            self.handle(RowPersisted(worker))

    def store_trouble(self, text: str) -> None:
        """Tell people where rows are that the store's database does not take; empty if it takes them."""
        before, since = self.behind
        if text:
            self.measures.dependencies.note(STORE, text)
        if text and text != before:
            self.behind = text, since if before else time.monotonic()
            self.journal.write("finding", **Finding.warning("store-behind", "", text).to_record("finding"))
        elif before and not text:
            self.behind = "", 0.0
            facts = {"code": "store-behind", "about": "", "text": before}
            self.journal.write("finding-over", **facts, lasted_s=round(time.monotonic() - since, 3))

    def activity(self) -> list[dict[str, Any]]:
        """Return what runs now, and how far it is."""
        return self.attempts.activity()

    async def ask(self, worker: str, question: str, **arguments: Any) -> dict[str, Any]:
        """Return what the supervisor on a worker answers."""
        member = self.cluster.members.get(worker)
        if member is None or member.address is None:
            raise ScalableError(f"{worker} is not connected")
        if (job := arguments.get("run")) is not None:
            arguments["run"] = self.attempts.key_of(job) or job
        within = ANSWER_WITHIN_S + float(arguments.get("seconds", 0.0))
        answer: dict[str, Any] = await self.attempts.conversation.ask(member.address, question, within, **arguments)
        return answer

    async def kill_worker(self, worker: str, reason: str) -> None:
        """End a worker at once, with everything on it; its jobs are run again and nothing is held against them."""
        member = self.cluster.members.get(worker)
        if member is not None and not member.leaving:
            self.handle(WorkerLeaving(worker))
            await self.cluster.kill(member, reason)

    # Work that the engine did not start

    def seen(self) -> Look:
        return look(self.cluster, self.recorder, self.attempts.serving())

    def look(self) -> None:
        if stopped := self.engine.view.braked:
            stop_all(self.cluster.scheduler, stopped)
        seen = self.seen()
        for tag, counts in seen.tags.items():
            event = OutsideWork(tag, counts.waiting, frozenset(counts.busy), frozenset(counts.holding))
            if self.scaler is None and self.outside.get(tag, OutsideWork(tag, 0)) != event:
                self.outside[tag] = event
                self.handle(event)
        if self.scaler is not None:
            self.consult(self.scaler, seen)
        self.gauge(seen)
        if self.meter is not None:
            self.meter.account()
        if self.hours is not None:
            self.hours.account()
        if self.on_look is not None:
            self.on_look(seen)
        if self.live is not None:
            self.live()

    def consult(self, scaler: AdaptiveScaler, seen: Look) -> None:
        """Let a scaler of the user's own decide instead of the engine's rule; about the engine's work, too."""
        tags = self.engine.view.tags
        waiting = {tag: counts.waiting + tags[tag].queued for tag, counts in seen.tags.items()}
        try:
            decision = scaler.evaluate(
                pending_tasks=[{"tag": tag} for tag, count in waiting.items() for _ in range(count)],
                active_workers={tag: counts.live + counts.requested for tag, counts in seen.tags.items()},
                busy_workers={tag: len(counts.working) for tag, counts in seen.tags.items()},
            )
        except Exception as error:  # noqa: BLE001 - the user's own code
            self.complain("the scaler could not decide", error)
            return
        if decision.has_changes:
            self.cluster.keep(self.follow(decision, {tag: len(counts.holding) for tag, counts in seen.tags.items()}))

    async def follow(self, decision: ScaleDecision, least: Mapping[str, int] | None = None) -> None:
        """Carry a decision out, but leave as many workers as must keep results."""
        counts = {}
        for tag in {*decision.workers_to_add, *decision.workers_to_remove}:
            self.cluster.template(tag)
            there = self.staying(tag)
            change = decision.workers_to_add.get(tag, 0) - decision.workers_to_remove.get(tag, 0)
            counts[tag] = max((least or {}).get(tag, 0), there + change)
        await self.set_counts(counts, decision.reasoning)

    def gauge(self, seen: Look, *, force: bool = False) -> None:
        when, before = self.gauged
        facts = seen.to_dict()
        for tag, counts in facts["tasks"].items():  # with the engine's own jobs
            own = self.engine.view.tags[tag]
            counts["waiting"] += own.queued + own.ahead + own.returning
            counts["running"] += max(0, self.attempts.by_tag[tag] - own.ahead)
        self.counted = facts
        if force or (time.monotonic() - when >= GAUGE_EVERY_S and facts != before):
            self.gauged = (time.monotonic(), facts)
            spent = self.meter.spent if self.meter is not None else None
            self.journal.write("gauge", **facts, cost=spent.to_dict() if spent else None)
