"""The figures of a live session: of its workers, its machines, and whether what it needs from outside answers.

Nothing is kept here that the driver or a worker knows already; what only the journal is told (retries, incidents, rows)
is folded as it is written, by the view that everybody else reads. What it costs grows with the workers, not with the
jobs.

Whether a store or server answers is mostly known from using it. What is used too seldom to be known that way is asked
now and then, by a thread of its own that a server which hangs cannot make anybody else wait for.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scalable.cluster.base import Landlord
from scalable.engine.events import JobState
from scalable.errors import ScalableError
from scalable.observe.fields import UNTAGGED, month
from scalable.observe.metrics import MOST_WORKERS, OTHERS, Sample
from scalable.observe.redact import redact_text
from scalable.observe.view import RunView
from scalable.quantities import Money
from scalable.store import Fate
from scalable.worker import measures as worker_measures
from scalable.worker.measures import NAME

if TYPE_CHECKING:
    from scalable.cluster.workers import Member
    from scalable.session.driver.driver import Driver
    from scalable.store import Receipt, Store
    from scalable.store.artefacts import Artefacts
    from scalable.store.tracking import Tracker

MINUTE_S = 60.0
FOLDED = frozenset({"retry", "incident", "sweep-started", "rows"})
"""What samples are made of. Other kinds would cost the driver 10 microseconds a record for nothing."""
SUMMED = ("rows_per_min", "cpu", "cpus", "memory", "memory_limit")
SHOWN_TASKS = 3  # keys of plain Dask tasks that are named per worker
STATES = ("starting", "idle", "busy", "leaving", "lost")
"""All that ``state`` says."""
STORE, TRACKING, OBJECTS = "store", "tracking", "objects"
NOTHING = ("asked", "asked")  # stage and key of an artefact that nobody keeps: looking for it is the smallest question
ASK_EVERY_S = 30.0  # often enough to be told within a minute, seldom enough not to be noticed by a server


@dataclass(frozen=True, slots=True)
class Purse:
    """A month's budget, its fixed costs, and what had been spent in it before this session."""

    monthly: Money
    fixed: Money
    before: Money
    month: str


class SessionMeasures:
    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.dependencies = Dependencies()
        self.own = worker_measures.WorkerMeasures()
        """Of this machine, where workers are threads of this process."""
        self.info: Mapping[str, str] = {}
        """What tells this session from others."""
        self.purse: Purse | None = None
        self.view = RunView()
        """Of the records of the kinds in ``FOLDED``."""
        self.rows: defaultdict[str, deque[tuple[float, int]]] = defaultdict(deque)
        """By worker: when rows of it were stored lately, and how many."""

    # What happens

    def heard(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Take in a record of the journal; from any thread."""
        if kind in FOLDED:
            self.view.take({"t": time.time(), "kind": kind, **facts})

    def stored(self, worker: str, rows: int) -> None:
        self.rows[worker].append((self.driver.now(), rows))

    # What is so now

    def workers(self) -> list[dict[str, Any]]:
        """Return the roster, with what each worker has got done and how silent it is."""
        workers = roster(self.driver)
        for gone in self.rows.keys() - {worker["worker"] for worker in workers}:
            del self.rows[gone]
        for worker in workers:
            worker["rows_per_min"] = self.rows_per_min(worker["worker"])
            worker["silent_s"] = self.silent_s(worker)
        return workers

    def rows_per_min(self, worker: str) -> int:
        lately = self.rows.get(worker)
        if not lately:
            return 0
        while lately and lately[0][0] <= self.driver.now() - MINUTE_S:
            lately.popleft()
        return sum(count for _, count in lately)

    def silent_s(self, worker: Mapping[str, Any]) -> float:
        """Return the longest silence among its jobs, by the rule that decides who is stuck."""
        now, longest = self.driver.now(), 0.0
        for job in worker["runs"]:
            record = self.driver.engine.view.jobs.get(job["run"])
            if record is not None:
                longest = max(longest, now - record.sign)
            elif self.driver.attempts.guarded.get(job["run"], {}).get("left_s") is None:
                longest = max(longest, float(job.get("idle_s") or 0.0))
        return round(longest, 1)

    def nodes(self) -> list[dict[str, Any]]:
        """Return the machines that workers are on, each as the worker tells that was heard last."""
        heard: dict[str, tuple[float, dict[str, Any]]] = {}
        scheduler, launcher = self.driver.cluster.scheduler, self.driver.cluster.launcher
        landlord = launcher if isinstance(launcher, Landlord) else None
        for member in list(self.driver.cluster.members.values()):
            state = scheduler.workers.get(member.address) if member.address else None
            if state is None:
                continue
            apart = not str(member.address).startswith("inproc")
            if not (reading := state.metrics.get(NAME) if apart else self.own.reading()):
                continue
            name = (landlord.node_of(member.name) if landlord is not None else None) or reading["node"]
            if name not in heard or heard[name][0] < state.last_seen:
                heard[name] = state.last_seen, {
                    "node": name, "pool": self.pool(member), "cpus": reading["node_cpus"], "cpu": reading["node_cpu"],
                    "memory": reading["node_memory_total"], "memory_used": reading["node_memory"],
                }  # fmt: skip
        return [heard[name][1] for name in sorted(heard)]

    def pool(self, member: Member) -> str:
        """Return the pool of nodes, as the manifest calls it, where it has some."""
        places = self.driver.meter.tariff.places if self.driver.meter is not None else {}
        return places.get(member.tag, ("", 0))[0]

    # For Prometheus, and for the alerts

    def samples(
        self, workers: list[dict[str, Any]] | None = None, nodes: list[dict[str, Any]] | None = None
    ) -> list[Sample]:
        """Return all samples; ``workers`` and ``nodes`` that were just asked for are not asked for again."""
        workers = self.workers() if workers is None else workers
        nodes = self.nodes() if nodes is None else nodes
        return [
            Sample("scalable_session_info", 1, self.info),
            Sample("scalable_paused", float(bool(self.driver.engine.view.paused or self.driver.engine.view.braked))),
            *(sample for worker in bounded(workers) for sample in of_worker(worker)),
            *(sample for node in nodes for sample in of_node(node)),
            *self.of_tags(workers),
            *self.of_sweeps(),
            *self.of_money(),
            *(
                Sample("scalable_dependency_up", float(state["up"]), {"dependency": name})
                for name, state in self.dependencies.states().items()
            ),
            *(
                Sample("scalable_retries_total", count, {"tag": "" if tag == UNTAGGED else tag, "cause": cause})
                for tag, work in list(self.view.work.items())
                for cause, count in list(work.retries.items())
            ),
            *(
                Sample("scalable_incidents_total", count, {"kind": kind})
                for kind, count in Counter(list(self.view.incident_kinds.values())).items()
            ),
        ]

    def of_tags(self, workers: list[dict[str, Any]]) -> Iterator[Sample]:
        driver, engine = self.driver, self.driver.engine.view
        doing = Counter((worker["tag"], worker["state"]) for worker in workers)
        longest: dict[str, float] = {}
        for worker in workers:
            for job in worker["runs"]:
                longest[worker["tag"]] = max(longest.get(worker["tag"], 0.0), float(job.get("seconds") or 0.0))
        for tag, record in engine.tags.items():
            label = {"tag": tag}
            for name in STATES:
                yield Sample("scalable_workers", doing[tag, name], {"tag": tag, "state": name})
            tasks = driver.counted.get("tasks", {}).get(tag, {})
            for name, count in tasks.items():
                yield Sample("scalable_tasks", count, {"tag": tag, "state": name})
            awaited = [m.age_s for m in driver.cluster.members.values() if m.tag == tag and not (m.joined or m.leaving)]
            asked = driver.now() - record.requested_at if record.requested else 0.0
            late = max([asked, *awaited])
            lacking = bool(awaited) or record.requested > 0 or record.workers == 0
            waiting = tasks.get("waiting", 0) - record.ahead - record.returning
            pending = waiting if lacking and not (engine.paused or engine.braked) else 0
            yield Sample("scalable_pending_tasks", max(0, pending), label)
            yield Sample("scalable_scale_up_seconds", round(late, 1), label)
            yield Sample("scalable_run_seconds", round(longest.get(tag, 0.0), 1), label)

    def of_sweeps(self) -> Iterator[Sample]:
        for name, sweep in list(self.view.sweeps.items()):
            yield Sample("scalable_rows_expected", sweep.expected, {"sweep": name})
            for state, count in (("there", sweep.there), ("done", sweep.rows - sweep.failed), ("failed", sweep.failed)):
                yield Sample("scalable_rows", count, {"sweep": name, "state": state})

    def of_money(self) -> Iterator[Sample]:
        spent = self.driver.meter.spent if self.driver.meter is not None else None
        if spent is None:
            return
        label = {"currency": spent.currency}
        yield Sample("scalable_cost_total", float(spent.amount), label)
        if self.purse is None or self.purse.monthly.currency != spent.currency:
            return
        if self.purse.month != (now := month(time.time())):  # what was spent until now belongs to the last one
            self.purse = replace(self.purse, before=Money.zero(spent.currency) - spent, month=now)
        yield Sample("scalable_cost_month_total", float((self.purse.fixed + self.purse.before + spent).amount), label)
        yield Sample("scalable_budget_month", float(self.purse.monthly.amount), label)


def bounded(workers: list[dict[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """Return as many workers as Prometheus can bear one by one, and the rest of each tag as one."""
    yield from workers[:MOST_WORKERS]
    rest: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for worker in workers[MOST_WORKERS:]:
        rest[worker["tag"]].append(worker)
    for tag, those in rest.items():
        sums = {name: sum(worker[name] or 0 for worker in those) for name in SUMMED}
        yield {"worker": OTHERS, "tag": tag, "silent_s": max(worker["silent_s"] for worker in those), **sums}


def of_worker(worker: Mapping[str, Any]) -> Iterator[Sample]:
    label = {"worker": worker["worker"], "tag": worker["tag"]}
    yield Sample("finetune_pod_idle_seconds", worker["silent_s"], label)
    yield Sample("finetune_rows_persisted_per_min", worker["rows_per_min"], label)
    for name, metric in (
        ("cpu", "scalable_worker_cpu_cores"),
        ("cpus", "scalable_worker_cpu_limit_cores"),
        ("memory", "scalable_worker_memory_bytes"),
        ("memory_limit", "scalable_worker_memory_limit_bytes"),
    ):
        if worker[name] is not None:
            yield Sample(metric, round(worker[name], 3), label)


def of_node(node: Mapping[str, Any]) -> Iterator[Sample]:
    label = {"node": node["node"]}
    yield Sample("scalable_node_cpu_cores", node["cpu"], label)
    yield Sample("scalable_node_cpu_capacity_cores", node["cpus"], label)
    yield Sample("scalable_node_memory_bytes", node["memory_used"], label)
    yield Sample("scalable_node_memory_capacity_bytes", node["memory"], label)


def roster(driver: Driver) -> list[dict[str, Any]]:
    doing: dict[str, list[dict[str, Any]]] = {}
    for job in driver.activity():
        record = driver.engine.view.jobs.get(job["run"])
        if record is None or record.state is not JobState.GIVEN:  # what waits behind others does nothing yet
            doing.setdefault(job["worker"], []).append(job)
    return [facts_of(driver, member, doing.get(name, [])) for name, member in sorted(driver.cluster.members.items())]


def facts_of(driver: Driver, member: Member, jobs: list[dict[str, Any]]) -> dict[str, Any]:
    dask = driver.cluster.scheduler.workers.get(member.address) if member.address else None
    tasks = [str(task.key) for task in dask.processing] if dask is not None else []
    limit = member.template.memory.bytes if member.template.memory else getattr(dask, "memory_limit", 0)
    return {
        "worker": member.name,
        "tag": member.tag,
        "state": state(member, busy=bool(jobs or tasks)),
        "why": member.leaving or ("" if member.joined else member.waits or member.launched.waits),
        "runs": jobs,
        "tasks": tasks[:SHOWN_TASKS],
        "task_count": len(tasks),
        "idle_s": idle_s(driver, member, jobs, tasks),
        "memory": memory(member, dask, jobs),
        "memory_limit": limit or None,
        "cpu": cpu(dask, jobs),
        "cpus": member.template.cpus,
        "host": getattr(dask, "host", None),
        "job": member.launched.job,
    }


def state(member: Member, *, busy: bool) -> str:
    if member.leaving:
        return "leaving"
    if not member.address:
        return "lost" if member.joined else "starting"
    return "busy" if busy else "idle"


def idle_s(driver: Driver, member: Member, jobs: list[dict[str, Any]], tasks: list[str]) -> float | None:
    """Return seconds since the last sign of its work, or the end of its last job; None for plain Dask tasks."""
    if jobs:
        return max(float(job.get("idle_s") or 0.0) for job in jobs)
    idle = driver.engine.view.tags[member.tag].idle if member.tag in driver.engine.view.tags else {}
    return driver.now() - idle[member.name] if member.name in idle and not tasks else None


def memory(member: Member, dask: Any, jobs: list[dict[str, Any]]) -> int | None:
    """Return what the worker and its jobs use together; a worker that is a thread uses nothing of its own."""
    apart = (member.address or "").startswith("inproc")
    own = 0 if dask is None or apart else int(dask.metrics.get("memory") or 0)
    return own + sum(int(job.get("memory") or 0) for job in jobs) or None


def cpu(dask: Any, jobs: list[dict[str, Any]]) -> float | None:
    """Return the CPUs in use: lately by its process and all it started; else by its jobs on average."""
    reading = dask.metrics.get(NAME) if dask is not None else None
    if reading:
        return float(reading["cpu"])
    if jobs:
        return sum(float(job.get("cpu_s") or 0.0) / max(0.1, float(job.get("seconds") or 0.0)) for job in jobs)
    return float(dask.metrics.get("cpu") or 0.0) / 100 if dask is not None else None


class Dependencies:
    """Told by any thread."""

    def __init__(self, ask_every_s: float = ASK_EVERY_S) -> None:
        self.ask_every_s = ask_every_s
        self.trouble: dict[str, str] = {}
        """By dependency in use: why it does not answer, empty if it does."""
        self.behind: Store | None = None
        """Has rows that its database has not taken yet."""

    def note(self, name: str, trouble: str = "") -> None:
        self.trouble[name] = redact_text(trouble)

    def stored(self, receipt: Receipt, store: Store) -> None:
        """Take note that rows were given to the store; it may have to keep them for its database."""
        self.behind = store if receipt.fate is Fate.KEPT else None
        self.note(STORE, receipt.reason if receipt.fate in (Fate.KEPT, Fate.REFUSED) else "")

    @contextmanager
    def asked(self, name: str, question: Callable[[], object]) -> Iterator[None]:
        """Ask a question again and again while within; it does not answer if that raises."""
        over, turn = threading.Event(), threading.Lock()

        def ask() -> None:
            while not over.is_set():
                trouble = ""
                try:
                    question()
                except (ScalableError, OSError) as error:
                    trouble = str(error) or type(error).__name__
                except Exception as error:  # noqa: BLE001 - clients of object stores raise errors of their own
                    trouble = f"{type(error).__name__}: {error}"
                with turn:
                    if not over.is_set():
                        self.note(name, trouble)
                over.wait(self.ask_every_s)

        threading.Thread(target=ask, name=f"scalable-{name}", daemon=True).start()
        try:
            yield
        finally:
            with turn:
                over.set()
            self.trouble.pop(name, None)  # it is not needed any more, so nobody need hear of it

    @contextmanager
    def used(self, tracker: Tracker, artefacts: Artefacts) -> Iterator[None]:
        """Know of a sweep's tracking server and of its object store while within, if it has them."""
        with ExitStack() as stack:
            if tracker.server is not None:
                stack.enter_context(self.asked(TRACKING, tracker.server.asked))
            if "://" in artefacts.url:
                stack.enter_context(self.asked(OBJECTS, lambda: artefacts.load(*NOTHING)))
            yield

    def states(self) -> dict[str, dict[str, Any]]:
        if self.behind is not None and not self.behind.waiting:
            self.behind = None
            self.note(STORE)
        return {name: {"up": not why, "text": why} for name, why in sorted(self.trouble.items())}
