"""The tariff of a session: by the worker, or by the node that workers share, at which price, from what budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scalable.cluster.base import DeploymentProvider, DeploymentSpec, Landlord, Launcher, Tenant
from scalable.errors import PlanningError
from scalable.planning.places import places
from scalable.planning.resources import ScalePlan, allocatable
from scalable.planning.rules import hourly
from scalable.planning.site import Site
from scalable.quantities import Duration, Money
from scalable.session.money.accounts import Others

BY_WORKER = "workers"
"""Each worker is paid from when it connected, or was hired, until it is gone."""
BY_JOB = "batch jobs as Slurm has them"
"""All that a batch job holds is paid, every core of an exclusive node, from when Slurm starts it until it ends."""
OBSERVED = "nodes as observed"
"""The backend says which nodes there were, and when."""
PACKED = "nodes as planned"
"""The backend does not say: workers are put on nodes as the plan does it."""
HIRING = ("aws", "gcp")
"""Targets on which a worker is a machine of its own, which is paid as soon as it boots."""
AS_HIRED = (
    "machines are counted from when they are asked for, a minute at least; disks, public addresses, traffic and logs "
    "are not counted"
)


@dataclass(frozen=True, slots=True)
class Rent:
    """The price of a node of a pool."""

    price: Money | None
    """An hour; nothing where it has none, or is paid anyway."""
    tail_s: float
    """How long it is kept, and paid, after its last worker."""
    start_s: float = 0.0
    """How long it is paid before it appears: a cloud charges a machine from its start."""
    standing: int = 0
    """How many nodes of the pool are always there, and paid for whoever uses them."""


@dataclass(frozen=True, slots=True)
class Tariff:
    basis: str
    currency: str = ""
    """Empty where machines are counted but nothing has a price."""
    workers: Mapping[str, Money] = field(default_factory=dict)
    """For an hour of a worker of each tag, where workers are paid."""
    core: Money | None = None
    """For an hour of a core, where batch jobs are paid for what they hold."""
    hired: bool = False
    """Workers are machines that are paid before they connect, whether they ever do or not."""
    pools: Mapping[str, Rent] = field(default_factory=dict)
    places: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """By tag: the pool it is planned for, and how many of its workers fill a node."""
    assumed: tuple[str, ...] = ()
    budget: Money | None = None
    """What may be spent from now on."""
    others: Others | None = None
    """Who else is paid from that."""

    def within(self, budget: Money | None, others: Others) -> Tariff:
        return replace(self, budget=budget, others=others if budget is not None else None)

    def hourly(self, tag: str) -> Money | None:
        """Return what a worker costs an hour: its price, or its part of a node's."""
        if tag in self.workers:
            return self.workers[tag]
        pool, fill = self.places.get(tag, ("", 1))
        price = self.pools[pool].price if pool in self.pools else None
        return Money(price.amount / fill, price.currency) if price is not None else None


def tariff_of(
    provider: DeploymentProvider, spec: DeploymentSpec, plan: ScalePlan, site: Site, launcher: Launcher
) -> Tariff | None:
    """Return the tariff: by node where the backend tells of nodes, else by priced worker, else by planned nodes."""
    observed = isinstance(launcher, Landlord)
    if not observed and (workers := hourly_prices(provider, spec, plan, site)):
        workers, others = in_one_currency(workers)
        if isinstance(launcher, Tenant) and (core := getattr(spec.target, "cpu_price", None)) is not None:
            return Tariff(BY_JOB, currency_of(workers), workers, core.hourly, assumed=others)
        hired = spec.target.provider in HIRING
        notes = (AS_HIRED, *others) if hired else others
        return Tariff(BY_WORKER, currency_of(workers), workers, hired=hired, assumed=notes)
    rents = {name: rent(site, name) for name in site.pools} if site.promises else {}
    prices, others = in_one_currency({name: terms.price for name, terms in rents.items() if terms.price is not None})
    if not (prices or observed):
        return None
    rents = {name: replace(terms, price=prices.get(name)) for name, terms in rents.items()}
    fills, unknown = filling(site, spec)
    paid = {name: one for name, one in rents.items() if one.price is not None}
    tails = ", ".join(f"{Duration(one.tail_s)} ({name})" for name, one in paid.items())
    assumed = (*((f"a node is kept, and paid, after its last worker: {tails}",) if tails else ()), *unknown, *others)
    if observed:
        starts = ", ".join(f"{Duration(one.start_s)} ({name})" for name, one in paid.items() if one.start_s)
        before = (f"a node is paid from its start, before it appears: {starts}",) if starts else ()
        return Tariff(OBSERVED, currency_of(prices), pools=rents, places=fills, assumed=(*assumed, *before))
    packed = f"{spec.target.provider} does not say which nodes there are: workers are put on nodes as planned"
    return Tariff(PACKED, currency_of(prices), pools=rents, places=fills, assumed=(packed, *assumed))


def hourly_prices(provider: DeploymentProvider, spec: DeploymentSpec, plan: ScalePlan, site: Site) -> dict[str, Money]:
    """Return what a worker of each tag costs an hour: as the engine's rules say, else as its provider does."""
    homes, prices = site.homes(), {}
    for tag in spec.components:
        if (price := hourly(site, homes[tag])) is not None:
            prices[tag] = price
        elif (estimate := provider.estimate_cost(spec, ScalePlan({tag: 1}, plan.resources_by_tag))) is not None:
            prices[tag] = Money.parse(f"{estimate.total_hourly:.6f} {estimate.currency}")
    return prices


def rent(site: Site, pool: str) -> Rent:
    written = site.pools[pool]
    return Rent(site.price(pool), written.idle.seconds, written.provision.seconds, written.least)


def filling(site: Site, spec: DeploymentSpec) -> tuple[dict[str, tuple[str, int]], tuple[str, ...]]:
    """Return by tag its pool and how many workers fill a node; and what must be said if that is not known."""
    if not site.promises:
        return {}, ("the manifest has no pools: a worker counts as all of its node",)
    try:
        pool_places = spec.places or places(site.manifest)
    except PlanningError as error:
        return {}, (f"workers are on no node in this bill: {error}",)
    fills = {}
    for tag, place in pool_places.items():
        if place.pool is not None:
            room = allocatable(site.node(place.pool), site.pools[place.pool])
            fills[tag] = (place.pool, max(1, place.at_most or place.request.times_in(room)))
    return fills, ()


def in_one_currency(prices: Mapping[str, Money]) -> tuple[dict[str, Money], tuple[str, ...]]:
    """Return those in the currency of the first, and what to say of the others: two currencies never add up."""
    currency = currency_of(prices)
    others = [name for name, price in prices.items() if price.currency != currency]
    left_out = (f"not counted beside {currency}: {', '.join(f'{name}, {prices[name]} an hour' for name in others)}",)
    return {name: price for name, price in prices.items() if name not in others}, left_out if others else ()


def currency_of(prices: Mapping[str, Money]) -> str:
    return next(iter(prices.values())).currency if prices else ""
