"""The one fold of a journal: what a run did and does, for every command, page and report that shows it.

``RunView.take`` knows nothing of files and clocks; records of unknown kinds and with fields that make no sense are
passed over. Tasks, peaks, retries and findings may come in any order. Memory is bounded but for the names of workers.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scalable.axes import task_of
from scalable.findings import Finding
from scalable.observe import sweep_progress
from scalable.observe.bills import Bill
from scalable.observe.costs import CostLedger
from scalable.observe.fan_out import FanOut
from scalable.observe.fields import UNTAGGED, count, mapping, memory, money, month, number, tag_of, text
from scalable.observe.fleet import WorkerHistory
from scalable.observe.hours import HoursUsed
from scalable.observe.series import Distribution, Series
from scalable.observe.sweep_progress import Grids, SweepProgress, UnitEnd
from scalable.plugins import TRAINING_SET
from scalable.quantities import Money
from scalable.wording import plural

OUT_OF_MEMORY = "out of memory"
FINISHED, FAILED, ENDED = "finished", "failed", "ended"
RUNNING, WAITING = "running", "waiting"  # where a job is that has not ended, as far as the journal tells
ABOUT_ALL = frozenset({"pause", "resume"})  # what operators do that concerns every job
GUARDED = re.compile(r"-[0-9a-f]{8}$")  # what a guarded function's name gets to be the name of its runner's work
FINDING = ("code", "text", "remedy", "severity", "about")  # what a record says of a finding
MOST_EVENTS = 1000  # of one job; one that was tried more often has the same to tell again
MOST_JOBS = 100_000  # whose states are kept
MOST_LISTED = 500  # of decisions, alerts, incidents, findings; the counts go on
ALERT = ("t", "alert", "text", "run", "state", "severity", "remedy", "labels")
RECENT = 500  # ends of tasks that a rate is computed from


@dataclass(slots=True)
class TimedFinding:
    """A finding of a run as it was made last: since when, how often, and whether it was withdrawn."""

    finding: Finding
    first: float
    last: float
    times: int = 1
    over: bool = False

    def again(self, finding: Finding, moment: float) -> None:
        """Count the finding once more; the latest text is kept, in whatever order they come."""
        self.times += 1
        self.first = min(self.first, moment)
        if moment >= self.last:
            self.finding, self.last = finding, moment

    def to_dict(self) -> dict[str, Any]:
        about = {"about": self.finding.path, "times": self.times, "over": self.over}
        return {"t": self.first, "last": self.last, **self.finding.to_record("finding"), **about}


@dataclass(slots=True)
class TagTasks:
    """The tasks of a tag. ``seconds`` are those of tasks that finished."""

    finished: int = 0
    failed: int = 0
    stopped: int = 0
    recalled: int = 0
    """Of those that finished: how many were in the cache."""
    seconds: Distribution = field(default_factory=Distribution)
    retries: Counter[str] = field(default_factory=Counter)
    """By cause."""
    peak: int | None = None
    peak_of: str = ""


@dataclass(slots=True)
class RunView:
    """All that a journal says of its run. ``take`` every record; ``status``, ``report`` and the rest only read."""

    job: str = ""
    """The job whose records are kept in ``events``; of the others only what they amount to is."""
    events: list[Mapping[str, Any]] = field(default_factory=list)
    traced: frozenset[str] = frozenset()
    """Jobs whose origins are kept."""
    origins: dict[str, sweep_progress.JobOrigin] = field(default_factory=dict)
    """The sweep that each of those belongs to, with its start, and the job's rows; of other jobs a journal has none."""
    jobs: dict[str, str] = field(default_factory=dict)
    """Where each job is: running, waiting, or how it ended."""
    started: Mapping[str, Any] = field(default_factory=dict)
    """The ``run-started`` record."""
    ended: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)
    """The latest ``plan`` record."""
    first: float | None = None
    last: float | None = None
    records: int = 0
    fleet: WorkerHistory = field(default_factory=WorkerHistory)
    work: defaultdict[str, TagTasks] = field(default_factory=lambda: defaultdict(TagTasks))
    work_began: float | None = None
    work_ended: float | None = None
    scaled: Counter[str] = field(default_factory=Counter)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    """Each with the number of workers that were wanted before and after it."""
    paused: str = ""
    """Who paused the run, if it is paused."""
    retried: list[dict[str, Any]] = field(default_factory=list)
    """The latest retries."""
    losses: Counter[str] = field(default_factory=Counter)
    """Workers and attempts that ended without our wish and without a result, by cause."""
    incidents: list[dict[str, Any]] = field(default_factory=list)
    """What was lost, with what is known of it."""
    recorded: dict[int, dict[str, Any]] = field(default_factory=dict)
    """The latest incidents that have a file of their own, by their numbers."""
    incident_kinds: dict[int, str] = field(default_factory=dict)
    """The kind of every incident that has a file of its own, by its number."""
    rowless: set[str] = field(default_factory=set)
    """Jobs of which rows failed."""
    failed_jobs: set[str] = field(default_factory=set)
    """Jobs that are counted as failed: their end and their rows both tell of it."""
    failures: list[dict[str, Any]] = field(default_factory=list)
    """Tasks that failed, with their errors."""
    alerts: list[dict[str, Any]] = field(default_factory=list)
    alert_count: int = 0
    """All of them, also those that are not listed, and their ends."""
    firing: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Alerts that have begun and are not over, by what they are about."""
    findings: dict[tuple[str, str], TimedFinding] = field(default_factory=dict)
    """By code and what each is about."""
    withdrawn: dict[tuple[str, str], float] = field(default_factory=dict)
    spent: Money | None = None
    per_hour: Money | None = None
    spent_by_month: dict[str, Money] = field(default_factory=dict)
    costs: CostLedger = field(default_factory=CostLedger)
    """What the bill is made of."""
    hours: HoursUsed = field(default_factory=HoursUsed)
    """What was used of an allocation."""
    gauge: Mapping[str, Any] = field(default_factory=dict)
    watched_from: float | None = None
    """When the session first looked at its workers: from then on it takes work."""
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    """When the latest tasks ended."""
    running: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Worker and tag of attempts that are under way, by run."""
    given: dict[str, float] = field(default_factory=dict)
    """When attempts under way were given to their workers, by run."""
    handing: Distribution = field(default_factory=Distribution)
    """What attempts took beside their own work, seen from the driver; without the first of each worker."""
    run_tags: dict[str, str] = field(default_factory=dict)
    run_peaks: dict[str, int] = field(default_factory=dict)
    """Highest peaks of runs by their names, however often each was run."""
    run_seconds: dict[str, Distribution] = field(default_factory=dict)
    """How long the jobs of each task took that finished."""
    fan_outs: dict[str, FanOut] = field(default_factory=dict)
    """The latest run of each task over axes."""
    recalled: set[str] = field(default_factory=set)
    """Jobs whose results were in the cache."""
    progress: dict[str, dict[str, Any]] = field(default_factory=dict)
    """How far attempts under way have said to be, by run."""
    sweeps: dict[str, SweepProgress] = field(default_factory=dict)
    grids: Grids = field(default_factory=Grids)
    series: Series = field(default_factory=Series)
    aside: int = 0
    """Records of rows that became dead letters."""
    unit_ends: dict[str, UnitEnd] = field(default_factory=dict)
    """Of units of sweeps whose rows are not stored yet, by run."""
    short_of_memory: dict[str, Counter[str]] = field(default_factory=dict)
    """By worker, how often it and its attempts ran out of memory; one event may be told both ways."""
    last_bill: tuple[tuple[Any, ...], Bill | None] | None = None
    """What ``bill`` answered last and to which question: it takes every unit of the run."""

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]], job: str = "", traced: Iterable[str] = ()) -> RunView:
        """Fold records; those of ``job`` are kept in ``events``, where the ``traced`` jobs come from in ``origins``."""
        view = cls(job, traced=frozenset(traced))
        for record in records:
            view.take(record)
        return view

    def take(self, record: Mapping[str, Any]) -> None:
        """Take in one record that has a time ``t`` and a ``kind``."""
        moment = record["t"]
        self.first = moment if self.first is None else min(self.first, moment)
        self.last = moment if self.last is None else max(self.last, moment)
        self.records += 1
        if self.job and concerns(record, self.job) and len(self.events) < MOST_EVENTS:
            self.events.append(record)
        if take := TAKERS.get(record["kind"]):
            take(self, record)

    @property
    def run_id(self) -> str:
        return text(self.started.get("run_id"))

    @property
    def status(self) -> str:
        """How the run ended: "ok", "failed" or "interrupted"; empty if it did not say."""
        return text(self.ended.get("status")) or ("interrupted" if self.ended else "")

    @property
    def began(self) -> float | None:
        return float(self.started["t"]) if self.started else self.first

    @property
    def out_of_memory(self) -> int:
        return sum(max(counts.values()) for counts in self.short_of_memory.values())

    @property
    def failed(self) -> int:
        return sum(work.failed for work in self.work.values())

    @property
    def retries(self) -> Counter[str]:
        """How often something was tried again, by cause."""
        return sum((work.retries for work in list(self.work.values())), Counter[str]())

    @property
    def incident_count(self) -> int:
        """How many incidents there are: those with a file of their own, which ``scalable incidents`` lists."""
        return len(self.incident_kinds)

    @property
    def incidents_forgotten(self) -> bool:
        """Whether there were more losses or incidents than are kept one by one."""
        return self.losses.total() > len(self.incidents) or max(self.recorded, default=0) > len(self.recorded)

    @property
    def startup_s(self) -> float | None:
        """From the start to a sweep's first unit, without the time in which workers were there and no sweep was."""
        asked = min((sweep.began for sweep in self.sweeps.values() if sweep.began is not None), default=None)
        if asked is None or self.began is None or self.work_began is None or self.work_began < asked:
            return None
        ready = max((moment for moment, _, _ in self.fleet.timeline if moment <= asked), default=asked)
        return self.work_began - self.began - (asked - ready)

    def memory_limit(self, tag: str) -> int | None:
        """Return what a worker of a tag may use, as planned."""
        return memory(mapping(mapping(self.plan.get("resources_by_tag")).get(tag)).get("memory"))

    def bill(self, until: float, *, over: bool) -> Bill | None:
        """Return what the run cost and for what, up to a moment; nothing where nothing is charged."""
        question = (self.records, until, over)
        if self.last_bill is None or self.last_bill[0] != question:
            self.last_bill = question, self.costs.bill(until, over=over)
        return self.last_bill[1]

    # What the kinds of records mean

    def take_start(self, record: Mapping[str, Any]) -> None:
        self.started = dict(record)

    def take_end(self, record: Mapping[str, Any]) -> None:
        self.ended = dict(record)

    def take_plan(self, record: Mapping[str, Any]) -> None:
        if record["t"] >= self.plan.get("t", record["t"]):
            self.plan = dict(record)

    def take_gauge(self, record: Mapping[str, Any]) -> None:
        if record["t"] >= self.gauge.get("t", record["t"]):
            self.gauge = dict(record)
        self.watched_from = min(record["t"], self.watched_from or record["t"])
        self.series.take_gauge(record)
        self.pay(record["t"], money(record.get("cost")))

    def take_cost(self, record: Mapping[str, Any]) -> None:
        self.pay(record["t"], money(record.get("spent")))
        self.per_hour = money(record.get("per_hour")) or self.per_hour
        self.costs.take_cost(record)

    def pay(self, moment: float, spent: Money | None) -> None:
        """What was paid since the last figure belongs to the month it is told in."""
        if spent is None or (self.spent is not None and spent.currency != self.spent.currency):
            return
        before = self.spent or Money.zero(spent.currency)
        if spent > before:
            bill = month(moment)
            self.spent_by_month[bill] = self.spent_by_month.get(bill, Money.zero(spent.currency)) + (spent - before)
        self.spent = spent if spent > before else before

    def take_scale(self, record: Mapping[str, Any]) -> None:
        direction, by = text(record.get("direction")), count(record.get("count"))
        if direction in ("up", "down"):
            before = self.fleet.kinds[tag].wanted if (tag := tag_of(record)) in self.fleet.kinds else 0
            after = before + by if direction == "up" else max(0, before - by)
            facts = {name: record.get(name) for name in ("t", "direction", "tag", "count", "reason")}
            self.scaled[direction] += 1
            self.decisions.append({**facts, "from": before, "to": after})
            del self.decisions[:-MOST_LISTED]

    def take_operator(self, record: Mapping[str, Any]) -> None:
        if record.get("ask") in ("pause", "resume"):
            by = text(record.get("by")) or "an operator"
            self.paused = f"paused by {by}" if record["ask"] == "pause" else ""

    def take_removed_worker(self, record: Mapping[str, Any]) -> None:
        self.fleet.removed(record)
        self.costs.lose_worker(record)

    def take_lost_worker(self, record: Mapping[str, Any]) -> None:
        self.fleet.lost(record)
        self.costs.lose_worker(record)
        self.lose(record, text(record.get("cause")) or "worker lost", "worker", text(record.get("detail")))

    def take_task(self, record: Mapping[str, Any]) -> None:
        self.costs.take_task(record)
        if (key := text(record.get("key"))) == self.job and key:
            self.jobs[key] = text(record.get("status")) or ENDED
        work = self.work[tag_of(record)]
        finished = record.get("status") == FINISHED
        work.finished += finished
        if not finished:
            self.fail(work, record, text(record.get("key")), text(record.get("error")))
        self.recent.append(record["t"])
        begin, end = number(record.get("start")), number(record.get("stop"))
        if begin is not None and end is not None and end >= begin:
            self.spend(work, begin, end, text(record.get("worker")), finished)

    def take_peaks(self, record: Mapping[str, Any]) -> None:
        work = self.work[tag_of(record)]
        for key, peak in mapping(record.get("peaks")).items():
            self.raise_peak(work, memory(peak), key)
            self.fleet.use_memory(text(record.get("worker")), tag_of(record), memory(peak), key)

    def take_attempt(self, record: Mapping[str, Any]) -> None:
        run = text(record.get("run"))
        self.costs.start_attempt(record)
        self.grids.start_unit(run)
        self.place(run, RUNNING)
        self.run_tags[run] = tag_of(record)
        self.running[run] = (text(record.get("worker")), tag_of(record))
        self.given[run] = record["t"]

    def take_attempt_end(self, record: Mapping[str, Any]) -> None:
        run, outcome = text(record.get("run")), text(record.get("outcome"))
        self.costs.end_attempt(record)
        self.place(run, WAITING)
        self.running.pop(run, None)
        self.progress.pop(run, None)
        tag = tag_of(record) if record.get("tag") else self.run_tags.get(run, UNTAGGED)
        work = self.work[tag]
        took, computed = number(record.get("seconds")), outcome == FINISHED and record.get("recalled") is not True
        given = self.given.pop(run, None)
        if outcome == FINISHED and not computed:
            work.recalled += 1
            if len(self.recalled) < MOST_JOBS:
                self.recalled.add(run)
        if took is not None and took >= 0:
            end = record["t"]
            if given is not None and outcome == FINISHED and text(record.get("worker")) in self.fleet.worked_from:
                self.handing.add(max(0.0, end - given - took))
            self.spend(work, end - took, end, text(record.get("worker")), computed)
        peak = memory(record.get("peak"))
        self.raise_peak(work, peak, run)
        self.fleet.use_memory(text(record.get("worker")), tag_of(record), peak, run)
        name = task_of(run)
        if peak is not None and (name in self.run_peaks or len(self.run_peaks) < MOST_LISTED):
            self.run_peaks[name] = max(peak, self.run_peaks.get(name, 0))
        if computed and took and (name in self.run_seconds or len(self.run_seconds) < MOST_LISTED):
            self.run_seconds.setdefault(name, Distribution()).add(took)
        if self.sweeps and (run in self.unit_ends or len(self.unit_ends) < MOST_LISTED):
            self.unit_ends.setdefault(run, UnitEnd()).take(
                record, finished=outcome == FINISHED, short=outcome == OUT_OF_MEMORY
            )
        if outcome != FINISHED:
            self.grids.lose_unit(run)
            if not self.fleet.lost_with(text(record.get("worker")), outcome):  # the loss of its worker is counted
                self.lose(record, outcome or "unknown", "attempt", text(record.get("message")))

    def take_run_end(self, record: Mapping[str, Any]) -> None:
        run, state = text(record.get("run")), text(record.get("state"))
        self.costs.end_job(record)
        self.place(run, FAILED if run in self.rowless and state == FINISHED else state or ENDED)
        if state != FINISHED:
            self.grids.lose_unit(run)
        self.running.pop(run, None)
        work = self.work[self.run_tags.pop(run, UNTAGGED)]
        work.finished += state == FINISHED
        work.stopped += state == "stopped"
        if state not in (FINISHED, "stopped"):
            if run in self.failed_jobs:
                work.finished += 1  # its rows came first and took one away
            else:
                self.fail_job(work, record, run, text(record.get("reason")))
        self.recent.append(record["t"])

    def take_progress(self, record: Mapping[str, Any]) -> None:
        run, used = text(record.get("run")), memory(record.get("memory"))
        self.fleet.use_memory(text(record.get("worker")), tag_of(record), used, run)
        self.series.use_memory(used, self.memory_limit(tag_of(record)))
        if run in self.running:
            self.progress[run] = {name: record.get(name) for name in ("step", "of", "note", "memory")}

    def take_note(self, record: Mapping[str, Any]) -> None:
        run, size = text(record.get("run")), (count(record.get("samples")), count(record.get("features")))
        if record.get("event") == TRAINING_SET and all(size) and self.sweeps and len(self.unit_ends) < MOST_LISTED:
            self.unit_ends.setdefault(run, UnitEnd()).take_size(*size)

    def take_fan_out(self, record: Mapping[str, Any]) -> None:
        if (fan_out := FanOut.of(record)) is not None and len(self.fan_outs) < MOST_LISTED:
            self.fan_outs[fan_out.task] = fan_out

    def take_retry(self, record: Mapping[str, Any]) -> None:
        cause, tag = text(record.get("cause")) or "unknown", tag_of(record)
        self.work[tag].retries[cause] += 1
        run = text(record.get("run"))
        self.place(run, WAITING)
        self.retried.append({"t": record["t"], "run": run or text(record.get("key")), "tag": tag, "cause": cause})
        del self.retried[:-MOST_LISTED]

    def take_incident(self, record: Mapping[str, Any]) -> None:
        """The short form of an incident's file; told again when something about it changed."""
        id_ = count(record.get("id"))
        known, kind = self.recorded.get(id_), text(record.get("incident")) or "unknown"
        if id_ and len(self.incident_kinds) < MOST_JOBS:
            self.incident_kinds[id_] = kind
        if known is not None or (id_ and (len(self.recorded) < MOST_LISTED or id_ > min(self.recorded))):
            copied = {name: record.get(name) for name in ("run", "worker", "tag", "severity", "outcome")}
            detail = text(record.get("text"))
            facts = {"id": id_, "kind": kind, **copied, "started": record["t"], "evidence": {"detail": detail}}
            self.recorded[id_] = {**facts, "started": known["started"]} if known is not None else facts
            if len(self.recorded) > MOST_LISTED:
                del self.recorded[min(self.recorded)]

    def take_sweep_start(self, record: Mapping[str, Any]) -> None:
        self.sweep(record).start(record)
        self.grids.start_sweep(record)

    def take_units(self, record: Mapping[str, Any]) -> None:
        self.grids.take_units(record)
        cells = mapping(record.get("unit_cells"))
        self.origins |= {job: self.grids.origin(record, text(cells[job])) for job in self.traced if job in cells}

    def take_rows(self, record: Mapping[str, Any]) -> None:
        run = text(record.get("run"))
        if run in self.traced:  # the grid of its sweep may be too large for ``sweep-units``
            self.origins.setdefault(run, self.grids.origin(record))
        self.sweep(record).take_rows(record, self.unit_ends.pop(run, None))
        self.grids.take_rows(record)
        if not record.get("elsewhere"):  # another run pays for those
            self.costs.take_rows(record, self.grids.axes_of(text(record.get("sweep"))))
        self.series.take_rows(record["t"], count(record.get("count")))
        self.aside += record.get("aside") is True
        if failed := count(record.get("failed")):
            self.fail_rows(record, run, failed)
        for measured in (self.run_peaks, self.run_seconds):
            measured.pop(task_of(run), None)  # of the sweep, not of a task that is run by its name

    def take_sweep_end(self, record: Mapping[str, Any]) -> None:
        self.sweep(record).end(record)
        self.grids.end_sweep(record)

    def sweep(self, record: Mapping[str, Any]) -> SweepProgress:
        name = text(record.get("sweep"))
        return self.sweeps.setdefault(name, SweepProgress(name))

    def take_alert(self, record: Mapping[str, Any]) -> None:
        name, state = text(record.get("alert")) or "unknown", text(record.get("state"))
        alert = {each: record.get(each) for each in ALERT if each in record} | {"alert": name}
        about = f"{name} {sorted(mapping(record.get('labels')).items())}"
        if state == "resolved":
            self.firing.pop(about, None)
        elif state == "firing" and len(self.firing) < MOST_LISTED:
            self.firing[about] = alert
        self.alert_count += 1
        self.alerts.append(alert)
        del self.alerts[:-MOST_LISTED]

    def take_finding(self, record: Mapping[str, Any]) -> None:
        key, moment = finding_key(record), record["t"]
        finding = Finding.from_record({name: text(record.get(name)) for name in FINDING})
        if key in self.findings:
            self.findings[key].again(finding, moment)
        elif len(self.findings) < MOST_LISTED:
            self.findings[key] = TimedFinding(finding, moment, moment)
        self.withdraw(key)

    def take_finding_over(self, record: Mapping[str, Any]) -> None:
        key = finding_key(record)
        if key in self.withdrawn or len(self.withdrawn) < MOST_LISTED:
            self.withdrawn[key] = max(record["t"], self.withdrawn.get(key, record["t"]))
            self.withdraw(key)

    def withdraw(self, key: tuple[str, str]) -> None:
        if key in self.findings and key in self.withdrawn:
            self.findings[key].over = self.withdrawn[key] >= self.findings[key].last

    def place(self, job: str, state: str) -> None:
        if job and (job in self.jobs or len(self.jobs) < MOST_JOBS or job == self.job):
            self.jobs[job] = state

    def fail_rows(self, record: Mapping[str, Any], job: str, failed: int) -> None:
        """Count a job as failed that ended well and has rows that did not; records come in any order."""
        if record.get("tag") and job not in self.failed_jobs:  # of older versions nobody knows where it ran
            work = self.work[tag_of(record)]
            work.finished -= 1
            self.fail_job(work, record, job, text(record.get("error")) or f"{plural(failed, 'row')} failed")
        if len(self.rowless) < MOST_JOBS:
            self.rowless.add(job)
        if self.jobs.get(job) == FINISHED:
            self.jobs[job] = FAILED

    def fail_job(self, work: TagTasks, record: Mapping[str, Any], job: str, error: str) -> None:
        if len(self.failed_jobs) < MOST_JOBS:
            self.failed_jobs.add(job)
        self.fail(work, record, job, error)

    def fail(self, work: TagTasks, record: Mapping[str, Any], task: str, error: str) -> None:
        work.failed += 1
        self.failures.append({"t": record["t"], "task": task, "worker": text(record.get("worker")), "error": error})
        del self.failures[:-MOST_LISTED]

    def spend(self, work: TagTasks, begin: float, end: float, worker: str, finished: bool) -> None:
        if finished:
            work.seconds.add(end - begin)
        self.work_began = begin if self.work_began is None else min(self.work_began, begin)
        self.work_ended = end if self.work_ended is None else max(self.work_ended, end)
        self.fleet.worked(worker, begin, end)

    def raise_peak(self, work: TagTasks, peak: int | None, key: str) -> None:
        if peak is not None and (peak, key) > (work.peak or 0, work.peak_of):
            work.peak, work.peak_of = peak, key

    def lose(self, record: Mapping[str, Any], cause: str, whose: str, detail: str) -> None:
        worker = text(record.get("worker"))
        self.losses[cause] += 1
        if cause == OUT_OF_MEMORY and not record.get("raised"):
            self.short_of_memory.setdefault(worker, Counter())[whose] += 1
        facts = {"kind": cause, "run": text(record.get("run")) or None, "worker": worker, "tag": record.get("tag")}
        evidence = {"detail": detail} if detail else {}
        self.incidents.append({"id": self.losses.total(), **facts, "started": record["t"], "evidence": evidence})
        del self.incidents[:-MOST_LISTED]


def concerns(record: Mapping[str, Any], job: str) -> bool:
    """Return whether a record tells of a job, or of what an operator did about it."""
    name = text(record.get("run"))
    match record["kind"]:
        case "operator":
            runs = record.get("runs")
            named = job in (name, record.get("target")) or (isinstance(runs, list) and job in runs)
            return named or record.get("ask") in ABOUT_ALL
        case "incident":
            return job in (name, GUARDED.sub("", name))
        case "task":
            return job in (name, record.get("key"))
        case _:
            return name == job


def finding_key(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return which situation a finding tells of, whatever its figures are."""
    return text(record.get("code")), text(record.get("about")) or text(record.get("text"))


TAKERS: dict[str, Callable[[RunView, Mapping[str, Any]], None]] = {
    "run-started": RunView.take_start,
    "ended": RunView.take_end,
    "plan": RunView.take_plan,
    "gauge": RunView.take_gauge,
    "cost": RunView.take_cost,
    "scale": RunView.take_scale,
    "worker-started": lambda view, record: view.fleet.started(record),
    "worker-pending": lambda view, record: view.fleet.pending(record),
    "worker-joined": lambda view, record: view.fleet.joined(record),
    "worker-leaving": lambda view, record: view.fleet.going(record),
    "worker-removed": RunView.take_removed_worker,
    "workers-refused": lambda view, record: view.fleet.refused(record),
    "worker-lost": RunView.take_lost_worker,
    "task": RunView.take_task,
    "peaks": RunView.take_peaks,
    "attempt-started": RunView.take_attempt,
    "attempt-ended": RunView.take_attempt_end,
    "note": RunView.take_note,
    "fan-out": RunView.take_fan_out,
    "run-ended": RunView.take_run_end,
    "progress": RunView.take_progress,
    "retry": RunView.take_retry,
    "incident": RunView.take_incident,
    "alert": RunView.take_alert,
    "operator": RunView.take_operator,
    "sweep-started": RunView.take_sweep_start,
    "sweep-units": RunView.take_units,
    "rows": RunView.take_rows,
    "sweep-ended": RunView.take_sweep_end,
    "tariff": lambda view, record: view.costs.take_tariff(record),
    "machine": lambda view, record: view.costs.take_machine(record),
    "placed": lambda view, record: view.costs.place(record),
    "allocation": lambda view, record: view.hours.begin(record),
    "hours": lambda view, record: view.hours.take(record),
    "finding": RunView.take_finding,
    "finding-over": RunView.take_finding_over,
}
