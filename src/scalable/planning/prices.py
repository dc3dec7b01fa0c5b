"""The price of a worker on a cloud: from the manifest where it says so, else from the dated list of the package.

Fargate charges vCPUs and GBs by the hour; machines are charged whole. Prices of spot capacity change by the hour and
are in no list: it is counted at the usual price, which it does not exceed, unless the manifest says what part it costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from scalable.errors import ScalableError
from scalable.manifest.targets import AwsTarget, GcpTarget, Target
from scalable.planning.capacity import (
    CapacityError,
    MachineType,
    fargate_size,
    fits,
    known_machine,
    price_list,
    smallest_machines,
)
from scalable.planning.resources import CostEstimate
from scalable.quantities import HOURS_PER_MONTH, Memory, Money

Hired = AwsTarget | GcpTarget
HIRED_AT_LEAST_S = 60.0  # EC2, Fargate and Compute Engine alike


class PriceUnknownError(ScalableError):
    """Neither the manifest nor the package's list says what something costs."""


@dataclass(frozen=True, slots=True)
class Charge:
    """One worker for an hour."""

    what: str
    """A Fargate size, or a machine type."""
    hourly: Money
    why: str = ""
    """Why it is more than was asked for."""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One kind of worker: how many, and the size of each."""

    count: int
    cpus: float
    memory: Memory | None = None


def hired(target: Target | None) -> Hired | None:
    """Return the target if its capacity is hired by the worker and priced here."""
    return target if isinstance(target, AwsTarget | GcpTarget) else None


def region_of(target: Hired) -> str | None:
    """Return where it is; a zone lies in the region it is named after."""
    zone = getattr(target, "zone", None)
    return target.region or (zone.rpartition("-")[0] if zone else None)


def machine_for(target: Hired, cpus: float, memory: Memory | None) -> MachineType:
    """Return the type that the target names, or the cheapest that holds the worker."""
    cloud = target.provider
    named = target.instance_type if isinstance(target, AwsTarget) else target.machine_type
    if named is None:
        types = smallest_machines(cloud, cpus, memory)
        listed = [(listed_machine(target, machine), machine) for machine in types]
        priced = [
            (price[0].amount, machine.cpus, machine.name, machine) for price, machine in listed if price is not None
        ]
        return min(priced)[-1] if priced else min(types, key=lambda machine: (machine.memory, machine.cpus))
    machine = known_machine(cloud, named)
    if machine is None:  # the cloud knows it; what it has is learnt there
        return MachineType(named, named, 0, Memory(0))
    if not fits(machine, cpus, memory):
        asked = f"{cpus:g} vCPU{f' and {memory}' if memory else ''}"
        left = f"{machine.usable} of its memory can be used"
        raise CapacityError(f"{machine} cannot hold a worker with {asked}, {left}; name a larger type")
    return machine


def listed_machine(target: Hired, machine: MachineType) -> tuple[Money, str] | None:
    """Return the list's price of a type in the target's region, and when it was true."""
    prices, region = price_list(target.provider), region_of(target)
    regional = prices["machines" if target.provider == "aws" else "parts"].get(region, {})
    if target.provider == "aws":
        each = regional.get(machine.family)
        amount = decimal(each) * machine.cpus if each is not None else None
    else:
        parts = regional.get(machine.family.split("-")[0])
        memory = Decimal(machine.memory.bytes) / 2**30
        amount = decimal(parts["vcpu"]) * machine.cpus + decimal(parts["gb"]) * memory if parts else None
    return (Money(amount, prices["currency"]), dated(regional)) if amount is not None else None


def charge(target: Hired, cpus: float, memory: Memory | None) -> Charge:
    """Return what a worker of this size costs an hour; raises if nobody says."""
    own = target.prices
    if isinstance(target, AwsTarget) and target.cluster_type == "fargate":
        size = fargate_size(cpus, memory, target.worker_cpu or 0, target.worker_mem or 0)
        if own and own.machine:
            raise PriceUnknownError("Fargate charges no machines; write prices: {vcpu: 0.04 USD/h, gb: 0.004 USD/h}")
        if own and own.vcpu and own.gb:
            usual, source = own.vcpu.hourly * size.vcpus + own.gb.hourly * size.gb, "the manifest"
        else:
            listed = price_list("aws")["fargate"].get(target.region)
            if listed is None:
                raise unknown(target, f"Fargate in {target.region or 'no region'}", price_list("aws")["fargate"])
            amount = decimal(listed["vcpu"]) * decimal(size.vcpus) + decimal(listed["gb"]) * decimal(size.gb)
            usual, source = Money(amount, price_list("aws")["currency"]), dated(listed)
        return Charge(f"Fargate, {size}", spot(target, usual), size.why, source)
    machine = machine_for(target, cpus, memory)
    if own and own.vcpu and own.gb and machine.cpus:
        usual = own.vcpu.hourly * machine.cpus + own.gb.hourly * (machine.memory.bytes / 2**30)
        source = "the manifest"
    elif own and own.machine:
        usual, source = own.machine.hourly, "the manifest"
    elif (listed := listed_machine(target, machine)) is not None:
        usual, source = listed
    else:
        regions = price_list(target.provider)["machines" if target.provider == "aws" else "parts"]
        raise unknown(target, f"{machine.name} in {region_of(target) or 'no region'}", regions)
    larger = machine.cpus > cpus or (memory is not None and machine.usable > memory)
    why = f"the cheapest that holds {cpus:g} CPU{f' and {memory}' if memory else ''}" if larger else ""
    return Charge(str(machine) if machine.cpus else machine.name, spot(target, usual), why, source)


def spot(target: Hired, usual: Money) -> Money:
    share = target.prices.spot if target.prices else None
    return usual * share if target.spot and share is not None else usual


def unknown(target: Hired, what: str, regions: Mapping[str, Any]) -> PriceUnknownError:
    fargate = isinstance(target, AwsTarget) and target.cluster_type == "fargate"
    own = "{vcpu: 0.04 USD/h, gb: 0.004 USD/h}" if fargate else "{machine: 0.10 USD/h}"
    known = ", ".join(regions)
    return PriceUnknownError(f"the price of {what} is not known (known are {known}); write yours: prices: {own}")


def estimate(target: Hired, workers: Mapping[str, Wanted]) -> CostEstimate:
    """Return what so many workers cost, line by line, with where each price is from."""
    lines: list[dict[str, Any]] = []
    currency = price_list(target.provider)["currency"]
    for tag, wanted in workers.items():
        charged = charge(target, wanted.cpus, wanted.memory)
        currency = charged.hourly.currency
        facts = {"tag": tag, "workers": wanted.count, "hourly": float((charged.hourly * wanted.count).amount)}
        what = f"{wanted.count} × {tag}, {charged.what} each"
        lines.append({"what": what, **facts, "rounded": charged.why, "source": charged.source})
    total = sum(line["hourly"] for line in lines)
    facts = {"spot": target.spot, "prices": sorted({line["source"] for line in lines})}
    return CostEstimate(
        target.provider, region_of(target), currency, total, total * HOURS_PER_MONTH, tuple(lines), facts
    )


def dated(listed: Mapping[str, Any]) -> str:
    return f"public list as of {listed['as_of']}"


def decimal(value: object) -> Decimal:
    return Decimal(str(value))
