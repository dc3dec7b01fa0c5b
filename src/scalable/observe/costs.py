"""From a run's journal to its bill: machines that are paid, workers on them, and the work that occupied those.

A machine is whatever is paid by the hour: a node that several workers share, or a single worker. A row gets its part of
every machine it was computed on: the time its unit occupied a worker, by the part of the machine the worker takes, and
in the same proportion the time in which the machine waited, from its start to the last work on it. What no row can be
charged with stands beside, so that rows and unattributed are the bill to the last digit.

The sum itself is the one that the session metered; it is only shared out here. In journals of earlier versions, which
have it rounded, it is computed from the machines' prices and times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from scalable.observe.bills import GRAINS, SECOND, TAIL, UNUSED, WITHOUT_ROWS, Bill, CostShare, PoolBill, paid, split
from scalable.observe.fields import count, money, number, text, texts
from scalable.quantities import LARGEST, Money

WHOLE = 10**6  # parts of a machine are counted in millionths
MOST_PIECES = 100_000  # whose cost is kept one by one; the rest is told as one
OTHERS = "(others)"
FINISHED, STOPPED = "finished", "stopped"


@dataclass(slots=True)
class PaidMachine:
    pool: str
    price: int
    """Grains an hour; nothing for those that are paid anyway."""
    since: int
    until: int | None
    tail: int
    """How long it is kept and paid after its last worker."""
    up: float | None = None
    """When it appeared, in seconds since the epoch, where the session was told."""


@dataclass(slots=True)
class Piece:
    """A unit of a sweep, or a task: what occupied workers for the sake of some rows."""

    sweep: str = ""
    rows: int = 0
    over: bool = False
    """It ended with a result or a failure; one that was stopped yields nothing."""
    occupied: dict[str, int] = field(default_factory=dict)
    """Time by worker."""
    lost: dict[str, int] = field(default_factory=dict)
    """That of attempts among it that came to nothing."""
    axes: Mapping[str, Sequence[str]] | None = None
    cells: str = ""
    """Positions of its rows in the grid with these axes."""


@dataclass(slots=True)
class Tenancy:
    """The work on one machine, in microseconds times millionths of it."""

    used: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """By piece of work."""
    lost: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    last: int | None = None
    """When the last work on it ended."""
    left: int | None = None
    """When the last worker went, or until when one was seen."""


@dataclass(slots=True)
class CostLedger:
    """The part of a ``RunView`` about money; records come in any order after the tariff. ``bill`` sums them up."""

    open: bool = False
    """There is a tariff: without one nothing is kept."""
    currency: str = ""
    basis: str = ""
    assumed: tuple[str, ...] = ()
    budget: Money | None = None
    """What could be spent when the run began."""
    machines: dict[str, PaidMachine] = field(default_factory=dict)
    lodgers: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By worker: its machine and the part of that which one of its slots takes."""
    gone: dict[str, int] = field(default_factory=dict)
    """When workers went."""
    worked_until: dict[str, int] = field(default_factory=dict)
    pieces: dict[str, Piece] = field(default_factory=dict)
    under_way: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)
    """Worker and start of attempts that have not ended."""
    metered: int | None = None
    """Grains that the session has counted as spent."""
    due: int = 0
    """Grains that would still be paid if everything ended then."""

    def take_tariff(self, record: Mapping[str, Any]) -> None:
        self.open, self.currency, self.basis = True, text(record.get("currency")), text(record.get("basis"))
        self.assumed = texts(record.get("assumed"))
        self.budget = money(record.get("budget"))

    def take_machine(self, record: Mapping[str, Any]) -> None:
        """Take a machine, also again when something about it is known better."""
        since, until, tail = (number(record.get(name)) for name in ("since", "until", "tail_s"))
        if self.open and since is not None:
            self.machines[text(record.get("machine"))] = PaidMachine(
                pool=text(record.get("pool")),
                price=grains(record.get("price")),
                since=micros(since),
                until=micros(until) if until is not None else None,
                tail=micros(max(0.0, tail or 0.0)),
                up=number(record.get("up")),
            )

    def take_cost(self, record: Mapping[str, Any]) -> None:
        if self.open and "exact" in record:
            due = money(record.get("due"))
            self.metered, self.due = grains(record["exact"]), int(due.amount * GRAINS) if due is not None else 0

    def place(self, record: Mapping[str, Any]) -> None:
        if self.open:
            self.lodgers[text(record.get("worker"))] = (text(record.get("machine")), part_of(record))

    def lose_worker(self, record: Mapping[str, Any]) -> None:
        if self.open:
            self.gone[text(record.get("worker"))] = micros(record["t"])

    def start_attempt(self, record: Mapping[str, Any]) -> None:
        if self.open:
            self.under_way[attempt_of(record)] = (text(record.get("worker")), micros(record["t"]))

    def end_attempt(self, record: Mapping[str, Any]) -> None:
        if self.open:
            now, took = micros(record["t"]), number(record.get("seconds"))
            begun = self.under_way.pop(attempt_of(record), None)
            time = micros(took) if took is not None else now - begun[1] if begun is not None else 0
            name, worker = text(record.get("run")), text(record.get("worker"))
            self.occupy(name, worker, now, time, lost=record.get("outcome") != FINISHED)

    def end_job(self, record: Mapping[str, Any]) -> None:
        if self.open:
            self.piece(text(record.get("run"))).over = record.get("state") != STOPPED

    def take_rows(self, record: Mapping[str, Any], axes: Mapping[str, Sequence[str]] | None = None) -> None:
        """Take rows; ``axes`` are those of the grid that the record's positions are in."""
        if self.open:
            run = text(record.get("run"))
            piece = self.piece(run)
            piece.rows += count(record.get("count"))
            piece.sweep, piece.over = text(record.get("sweep")), True
            if run in self.pieces:  # the others may be of several grids
                piece.axes = axes
                piece.cells = ",".join(filter(None, (piece.cells, text(record.get("cells")))))

    def take_task(self, record: Mapping[str, Any]) -> None:
        key, begin, end = text(record.get("key")), number(record.get("start")), number(record.get("stop"))
        if self.open and begin is not None and end is not None:
            lost = record.get("status") != FINISHED
            self.occupy(key, text(record.get("worker")), micros(end), micros(end - begin), lost=lost)
            self.piece(key).over = True

    def occupy(self, run: str, worker: str, end: int, time: int, *, lost: bool) -> None:
        piece = self.piece(run)
        for times in (piece.occupied, piece.lost) if lost else (piece.occupied,):
            times[worker] = times.get(worker, 0) + max(0, time)
        self.worked_until[worker] = max(end, self.worked_until.get(worker, end))

    def piece(self, run: str) -> Piece:
        name = run if run in self.pieces or len(self.pieces) < MOST_PIECES else OTHERS
        return self.pieces.setdefault(name, Piece())

    # The sum

    def bill(self, until: float, *, over: bool) -> Bill | None:
        """Return the bill up to a moment, None if nothing is charged. After a run, machines are paid until they go."""
        if not self.open:
            return None
        now = micros(until)
        tenancies = self.tenancies(now)
        busy, idle, lost = defaultdict[str, int](int), defaultdict[str, int](int), defaultdict[str, int](int)
        beside = dict.fromkeys((TAIL, UNUSED, WITHOUT_ROWS), 0)
        pools: defaultdict[str, PoolBill] = defaultdict(PoolBill)
        ends = {
            name: end_of(machine, tenancies.get(name, Tenancy()), now, over=over)
            for name, machine in self.machines.items()
        }
        foreseen = 0
        costs = self.costs(ends, over=over)
        for (name, machine), cost in zip(self.machines.items(), costs, strict=True):
            tenancy, pool = tenancies.get(name, Tenancy()), pools[machine.pool]
            end = ends[name]
            there = end - machine.since
            work = sum(tenancy.used.values())
            pool.machines += 1
            pool.cost += cost
            pool.used += work / WHOLE
            pool.time += there if machine.price else 0
            pool.standing += 0 if machine.price else there
            foreseen += part(cost, end - max(now, machine.since), there) if over else 0
            if not work or tenancy.last is None:
                beside[UNUSED] += cost
                continue
            charged = part(cost, min(tenancy.last, end) - machine.since, there)
            direct = min(charged, part(cost, work // WHOLE, there))
            beside[TAIL] += cost - charged
            weights = list(tenancy.used.values())
            for run, own, waited in zip(
                tenancy.used, split(direct, weights), split(charged - direct, weights), strict=True
            ):
                busy[run] += own
                idle[run] += waited
                lost[run] += own * tenancy.lost[run] // max(1, tenancy.used[run])
        shares = []
        for run, piece in self.pieces.items():
            if piece.over:
                paid_for = busy[run], idle[run], lost[run]
                shares.append(CostShare(run, piece.sweep, piece.rows or 1, *paid_for, piece.axes, piece.cells))
        beside[WITHOUT_ROWS] = sum(busy[run] + idle[run] for run in busy if not self.yielded(run))
        total = self.total(sum(costs), over=over)
        beside[UNUSED] += total - sum(costs)
        return Bill(self.currency, self.basis, total, tuple(shares), beside, foreseen, dict(pools), self.assumed)

    def costs(self, ends: Mapping[str, int], *, over: bool) -> list[int]:
        """Return what each machine cost: its part of the metered sum, by price and time."""
        computed = [paid(machine.price, ends[name] - machine.since) for name, machine in self.machines.items()]
        return split(self.total(sum(computed), over=over), computed)

    def total(self, computed: int, *, over: bool) -> int:
        """Return what the session metered; what machines, times and prices make where an old journal has no meter."""
        if self.metered is None:
            return computed
        return self.metered + (self.due if over else 0)

    def yielded(self, run: str) -> bool:
        return run in self.pieces and self.pieces[run].over

    def tenancies(self, now: int) -> dict[str, Tenancy]:
        """Return what was on each machine; attempts under way occupy it until now."""
        tenancies: defaultdict[str, Tenancy] = defaultdict(Tenancy)
        for worker, (machine, _) in self.lodgers.items():
            tenancy = tenancies[machine]
            tenancy.left = latest(tenancy.left, self.gone.get(worker, now))
            if worker in self.worked_until:
                tenancy.last = latest(tenancy.last, self.worked_until[worker])
        for run, piece in self.pieces.items():
            for worker, time in piece.occupied.items():
                machine, part = self.lodgers.get(worker, ("", 0))
                tenancies[machine].used[run] += time * part
                tenancies[machine].lost[run] += piece.lost.get(worker, 0) * part
        for (run, _), (worker, begin) in self.under_way.items():
            machine, part = self.lodgers.get(worker, ("", 0))
            end = self.gone.get(worker, now)
            tenancies[machine].used[run] += max(0, end - begin) * part
            tenancies[machine].last = latest(tenancies[machine].last, end)
        return tenancies


def end_of(machine: PaidMachine, tenancy: Tenancy, now: int, *, over: bool) -> int:
    """Return when it is paid no longer, as far as is known or must be assumed."""
    if machine.until is not None:
        return max(machine.since, machine.until)
    if not over:
        return max(machine.since, now)
    return max(machine.since, now, (now if tenancy.left is None else tenancy.left) + machine.tail)


def attempt_of(record: Mapping[str, Any]) -> tuple[str, int]:
    return text(record.get("run")), count(record.get("attempt"))


def part(cost: int, time: int, whole: int) -> int:
    """Return what some of a machine's time cost."""
    return cost * min(max(0, time), whole) // whole if whole > 0 else 0


def latest(known: int | None, other: int) -> int:
    return other if known is None else max(known, other)


def micros(seconds: float) -> int:
    return round(seconds * SECOND)


def grains(price: object) -> int:
    """Return a price by the hour as it stands in the journal: a text, so that no digit is lost."""
    try:
        price_by_hour = Decimal(text(price) or "0")
    except InvalidOperation:
        return 0
    return int(price_by_hour * GRAINS) if price_by_hour.is_finite() and 0 <= price_by_hour <= LARGEST else 0


def part_of(record: Mapping[str, Any]) -> int:
    """Return which part of its machine one slot of a worker takes; all of it if nothing is said."""
    part = number(record.get("part"))
    whole = round(part * WHOLE) if part is not None and 0 < part <= 1 else WHOLE
    return whole // max(1, count(record.get("slots")))


def left_of_budget(ledger: CostLedger, spent: Money | None) -> Money | None:
    """Return what may still be spent; nothing where there is no budget."""
    if ledger.budget is None:
        return None
    if spent is None or spent.currency != ledger.budget.currency:
        return ledger.budget
    left = ledger.budget - spent
    return left if left.amount > 0 else Money.zero(left.currency)
