"""The meter of an allocation: core-, node- and GPU-hours that a session uses, counted once, here.

Batch jobs are counted as Slurm has them: all that a job holds (every core of an exclusive node), from when Slurm starts
it until it ends; waiting in the queue is free. Where no batch system says what is held, a worker counts with its own
CPUs and GPUs, and as a node, from when it is connected until it is gone.

What it sees goes to the journal as records ``hours``, and to the engine as ``HoursChanged``, so that the brake works
with the same figures. It goes on listening while the cluster closes: jobs are held until they are gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalable.cluster.base import HeldAllocation, Tenant
from scalable.engine.events import HoursChanged
from scalable.errors import PlanningError
from scalable.machine_hours import HeldResources, MachineHours
from scalable.planning.hours import allocation_left
from scalable.session.money.costs import EVERY_S
from scalable.session.money.tariffs import BY_JOB, BY_WORKER

if TYPE_CHECKING:
    from scalable.cluster.cluster import TaggedCluster
    from scalable.manifest.models import Manifest
    from scalable.observe.journal import Journal
    from scalable.planning.history import History
    from scalable.planning.site import Site
    from scalable.session.money.accounts import Others


@dataclass(frozen=True, slots=True)
class Allowance:
    """The hours of an allocation that a session may use."""

    budget: MachineHours | None = None
    """From now on; nothing where hours are only counted."""
    balance: MachineHours | None = None
    """What the account had left by the cluster's accounting."""
    others: Others | None = None
    """Sessions that use the same allocation."""


def allowance_of(site: Site, history: History, others: Others) -> Allowance:
    """Return what may be used from now on; raises ``PlanningError`` if that is nothing."""
    allocation, left = site.allocation, allocation_left(site.manifest, history)
    assert allocation is not None, "hours are budgeted"
    assert left is not None, "hours are budgeted"
    left -= MachineHours(others.hours_before.of(allocation.unit), allocation.unit)
    if left.amount <= 0:
        raise PlanningError(f"nothing is left of the {allocation} of budget.allocation; raise it to start")
    if site.balance is not None and site.balance.amount <= 0:
        raise PlanningError("nothing is left of the account by Slurm's accounting (sshare); ask your centre")
    allowed = left if site.balance is None else min(left, site.balance, key=lambda hours: hours.amount)
    return Allowance(allowed, site.balance, others)


def raise_budget(manifest: Manifest) -> str:
    """Return what to do about a budget that is used up."""
    budget = manifest.budget
    names = [name for name in ("monthly", "allocation") if budget is not None and getattr(budget, name) is not None]
    return f"raise {' or '.join(f'budget.{name}' for name in names or ('monthly',))}"


class HoursMeter:
    """Counts what the batch jobs of a session hold, or its workers where there is no batch system."""

    def __init__(
        self, cluster: TaggedCluster, journal: Journal, allowance: Allowance, tell: Callable[[HoursChanged], None]
    ) -> None:
        self.cluster = cluster
        self.journal = journal
        self.allowance = allowance
        self.tell = tell
        self.workers: dict[str, HeldAllocation] = {}
        """Where workers are counted one by one."""
        self.told = float("-inf")
        self.closing = False

    def begin(self) -> None:
        budget, balance = self.allowance.budget, self.allowance.balance
        self.journal.write(
            "allocation",
            basis=BY_JOB if isinstance(self.cluster.launcher, Tenant) else BY_WORKER,
            budget=budget.to_dict() if budget is not None else None,
            balance=balance.to_dict() if balance is not None else None,
        )
        self.cluster.listeners.append(self.heard)

    def heard(self, kind: str, facts: dict[str, Any]) -> None:
        now = time.time()
        match kind:
            case "worker-joined":
                template = self.cluster.templates[facts["tag"]]
                nodes = template.program.nodes
                held = HeldResources(float(template.cpus), 1.0, float(template.gpus)) * nodes
                self.workers.setdefault(facts["worker"], HeldAllocation(facts["worker"], held, now))
                self.account(force=True)
            case "worker-lost" | "worker-removed" | "workers-refused" if "worker" in facts:
                if (worker := self.workers.get(facts["worker"])) is not None and worker.until is None:
                    self.workers[worker.name] = HeldAllocation(worker.name, worker.held, worker.since, now)
                if not self.closing or not self.cluster.members:
                    self.account(force=True)

    def close(self) -> None:
        """Tell nobody any more; the last worker that goes makes the final sum."""
        self.closing = True
        self.account(force=True)

    def account(self, *, force: bool = False) -> None:
        """Sum up what was used, every few seconds or at once."""
        if not force and time.monotonic() - self.told < EVERY_S:
            return
        self.told, now = time.monotonic(), time.time()
        launcher = self.cluster.launcher
        allocations = launcher.holdings() if isinstance(launcher, Tenant) else list(self.workers.values())
        used = sum((each.used(now) for each in allocations), HeldResources())
        held = sum((each.held for each in allocations if each.until is None), HeldResources())
        self.journal.write("hours", used=used.to_dict(), held=held.to_dict())
        budget, others = self.allowance.budget, self.allowance.others
        if budget is None or self.closing:
            return
        unit = budget.unit
        spent, grows = MachineHours(used.of(unit), unit), MachineHours(held.of(unit), unit)
        elsewhere = MachineHours(others.hours_since().of(unit), unit) if others is not None else None
        self.tell(HoursChanged(spent, grows, MachineHours.zero(unit), elsewhere=elsewhere))
