"""The figures of a live session, made from what its driver knows whenever someone asks.

Nothing is kept here that the driver or a worker knows already; what only the journal is told (retries, incidents, rows)
is folded as it is written, by the view that everybody else reads. What it costs grows with the workers, not with the
jobs.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scalable.cluster.base import Landlord
from scalable.observe.fields import UNTAGGED, month
from scalable.observe.metrics import MOST_WORKERS, OTHERS, Sample
from scalable.observe.view import RunView
from scalable.quantities import Money
from scalable.session.dependencies import Dependencies
from scalable.session.roster import STATES, roster
from scalable.worker import measures as worker_measures
from scalable.worker.measures import NAME

if TYPE_CHECKING:
    from scalable.cluster.workers import Member
    from scalable.session.driver import Driver

MINUTE_S = 60.0
FOLDED = frozenset({"retry", "incident", "sweep-started", "rows"})
"""What samples are made of. Other kinds would cost the driver 10 microseconds a record for nothing."""


@dataclass(frozen=True, slots=True)
class Purse:
    """What a month may cost, what it costs whatever runs, and what had been spent in it before this session."""

    monthly: Money
    fixed: Money
    before: Money
    month: str


class Measures:
    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.dependencies = Dependencies()
        self.here = worker_measures.Measures()
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
        """The roster, with what each worker has got done and how silent it is."""
        found = roster(self.driver)
        for gone in self.rows.keys() - {one["worker"] for one in found}:
            del self.rows[gone]
        for one in found:
            one["rows_per_min"] = self.rows_per_min(one["worker"])
            one["silent_s"] = self.silent_s(one)
        return found

    def rows_per_min(self, worker: str) -> int:
        lately = self.rows.get(worker)
        if not lately:
            return 0
        while lately and lately[0][0] <= self.driver.now() - MINUTE_S:
            lately.popleft()
        return sum(count for _, count in lately)

    def silent_s(self, worker: Mapping[str, Any]) -> float:
        """How long the most silent of its jobs gave no sign of life, by the rule that decides who is stuck."""
        now, longest = self.driver.now(), 0.0
        for one in worker["runs"]:
            record = self.driver.engine.view.jobs.get(one["run"])
            if record is not None:
                longest = max(longest, now - record.sign)
            elif self.driver.attempts.guarded.get(one["run"], {}).get("left_s") is None:
                longest = max(longest, float(one.get("idle_s") or 0.0))
        return round(longest, 1)

    def nodes(self) -> list[dict[str, Any]]:
        """The machines that workers are on, each as the worker tells that was heard last."""
        heard: dict[str, tuple[float, dict[str, Any]]] = {}
        scheduler, launcher = self.driver.cluster.scheduler, self.driver.cluster.launcher
        landlord = launcher if isinstance(launcher, Landlord) else None
        for member in list(self.driver.cluster.members.values()):
            state = scheduler.workers.get(member.address) if member.address else None
            if state is None:
                continue
            apart = not str(member.address).startswith("inproc")
            if not (told := state.metrics.get(NAME) if apart else self.here.told()):
                continue
            name = (landlord.node_of(member.name) if landlord is not None else None) or told["node"]
            if name not in heard or heard[name][0] < state.last_seen:
                heard[name] = state.last_seen, {
                    "node": name, "pool": self.pool(member), "cpus": told["node_cpus"], "cpu": told["node_cpu"],
                    "memory": told["node_memory_total"], "memory_used": told["node_memory"],
                }  # fmt: skip
        return [heard[name][1] for name in sorted(heard)]

    def pool(self, member: Member) -> str:
        """Of nodes, as the manifest calls it, where it has some."""
        places = self.driver.meter.tariff.places if self.driver.meter is not None else {}
        return places.get(member.tag, ("", 0))[0]

    # For Prometheus, and for the alerts

    def samples(
        self, workers: list[dict[str, Any]] | None = None, nodes: list[dict[str, Any]] | None = None
    ) -> list[Sample]:
        """Everything, or with what was just asked for."""
        workers = self.workers() if workers is None else workers
        nodes = self.nodes() if nodes is None else nodes
        return [
            Sample("scalable_session_info", 1, self.info),
            Sample("scalable_paused", float(bool(self.driver.engine.view.paused or self.driver.engine.view.braked))),
            *(sample for one in bounded(workers) for sample in of_worker(one)),
            *(sample for one in nodes for sample in of_node(one)),
            *self.of_tags(workers),
            *self.of_sweeps(),
            *self.of_money(),
            *(
                Sample("scalable_dependency_up", float(one["up"]), {"dependency": name})
                for name, one in self.dependencies.told().items()
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
        doing = Counter((one["tag"], one["state"]) for one in workers)
        longest: dict[str, float] = {}
        for one in workers:
            for job in one["runs"]:
                longest[one["tag"]] = max(longest.get(one["tag"], 0.0), float(job.get("seconds") or 0.0))
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
        for name, one in list(self.view.sweeps.items()):
            yield Sample("scalable_rows_expected", one.expected, {"sweep": name})
            for state, count in (("there", one.there), ("done", one.rows - one.failed), ("failed", one.failed)):
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
    """As many workers as Prometheus can bear one by one, and the rest of each tag as one."""
    yield from workers[:MOST_WORKERS]
    rest: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in workers[MOST_WORKERS:]:
        rest[one["tag"]].append(one)
    for tag, those in rest.items():
        sums = {name: sum(one[name] or 0 for one in those) for name in SUMMED}
        yield {"worker": OTHERS, "tag": tag, "silent_s": max(one["silent_s"] for one in those), **sums}


SUMMED = ("rows_per_min", "cpu", "cpus", "memory", "memory_limit")


def of_worker(one: Mapping[str, Any]) -> Iterator[Sample]:
    label = {"worker": one["worker"], "tag": one["tag"]}
    yield Sample("finetune_pod_idle_seconds", one["silent_s"], label)
    yield Sample("finetune_rows_persisted_per_min", one["rows_per_min"], label)
    for name, metric in (
        ("cpu", "scalable_worker_cpu_cores"),
        ("cpus", "scalable_worker_cpu_limit_cores"),
        ("memory", "scalable_worker_memory_bytes"),
        ("memory_limit", "scalable_worker_memory_limit_bytes"),
    ):
        if one[name] is not None:
            yield Sample(metric, round(one[name], 3), label)


def of_node(one: Mapping[str, Any]) -> Iterator[Sample]:
    label = {"node": one["node"]}
    yield Sample("scalable_node_cpu_cores", one["cpu"], label)
    yield Sample("scalable_node_cpu_capacity_cores", one["cpus"], label)
    yield Sample("scalable_node_memory_bytes", one["memory_used"], label)
    yield Sample("scalable_node_memory_capacity_bytes", one["memory"], label)
