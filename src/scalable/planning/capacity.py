"""Sizes that clouds hire out: Fargate tasks and types of machines, and which of them a worker needs.

A worker gets the smallest that holds it; where that is more than it asked for, the reason is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import ceil
from typing import Any

import yaml

from scalable.errors import ScalableError
from scalable.quantities import Memory

MIB, GIB = 2**20, 2**30
UNITS = 1024  # of ECS are one vCPU
SYSTEM = 0.08  # of a machine's memory is taken by its kernel, the container runtime and what the type holds back

FARGATE = {
    256: (512, 1024, 2048),
    512: tuple(range(1024, 4096 + 1, 1024)),
    1024: tuple(range(2048, 8192 + 1, 1024)),
    2048: tuple(range(4096, 16384 + 1, 1024)),
    4096: tuple(range(8192, 30720 + 1, 1024)),
    8192: tuple(range(16384, 61440 + 1, 4096)),
    16384: tuple(range(32768, 122880 + 1, 8192)),
}
"""MiB that a task with so many CPU units may have; ECS refuses all others."""


class CapacityError(ScalableError):
    """No task or machine of the cloud is large enough, or its type is not known."""


@dataclass(frozen=True, slots=True)
class TaskSize:
    """A size that Fargate has."""

    units: int
    mib: int
    why: str = ""
    """Why it is more than was asked for."""

    @property
    def vcpus(self) -> float:
        return self.units / UNITS

    @property
    def gb(self) -> float:
        return self.mib / 1024

    def __str__(self) -> str:
        return f"{self.vcpus:g} vCPU, {self.gb:g} GB"


@dataclass(frozen=True, slots=True)
class MachineType:
    name: str
    family: str
    cpus: int
    memory: Memory

    @property
    def usable(self) -> Memory:
        return Memory(int(self.memory.bytes * (1 - SYSTEM)))

    def __str__(self) -> str:
        return f"{self.name} ({self.cpus} vCPU, {self.memory})"


def fargate_size(cpus: float, memory: Memory | None, least_units: int = 0, least_mib: int = 0) -> TaskSize:
    """Return the smallest task that has as much; memory may need more vCPUs than were asked for, or vCPUs memory."""
    units = max(round(cpus * UNITS), least_units)
    mib = max(ceil(memory.bytes / MIB) if memory else 0, least_mib)
    for size, amounts in FARGATE.items():
        fitting = [amount for amount in amounts if amount >= mib]
        if size >= units and fitting:
            task_size = TaskSize(size, fitting[0])
            return TaskSize(size, fitting[0], reason(task_size, units, mib))
    largest = TaskSize(max(FARGATE), max(FARGATE[max(FARGATE)]))
    asked = f"{units / UNITS:g} vCPU and {mib / 1024:g} GB"
    remedy = "ask for less, or write cluster_type: ec2"
    raise CapacityError(f"no Fargate task has {asked}, the largest has {largest}; {remedy}")


def reason(task_size: TaskSize, units: int, mib: int) -> str:
    parts = []
    if task_size.units > units:
        next_size = min(size for size in FARGATE if size >= units)
        need = "the next size there is" if task_size.units == next_size else f"{mib / 1024:g} GB need them"
        parts.append(f"{task_size.vcpus:g} vCPU instead of {units / UNITS:g} ({need})")
    if task_size.mib > mib > 0:
        least = task_size.mib == min(FARGATE[task_size.units])
        why = f"the least with {task_size.vcpus:g} vCPU" if least else "the next size there is"
        parts.append(f"{task_size.gb:g} GB instead of {mib / 1024:g} ({why})")
    return " and ".join(parts)


@cache
def price_list(cloud: str) -> dict[str, Any]:
    text = files("scalable.planning").joinpath("price-lists", f"{cloud}.yaml").read_text(encoding="utf-8")
    prices: dict[str, Any] = yaml.safe_load(text)
    return prices


def machine_types(cloud: str) -> Iterator[MachineType]:
    dot = "." if cloud == "aws" else "-"
    for family, facts in price_list(cloud)["families"].items():
        for size, cpus in facts["sizes"].items():
            yield MachineType(f"{family}{dot}{size}", family, cpus, Memory(cpus * facts["gib"] * GIB))


def known_machine(cloud: str, name: str) -> MachineType | None:
    return next((machine for machine in machine_types(cloud) if machine.name == name), None)


def fits(machine: MachineType, cpus: float, memory: Memory | None) -> bool:
    return machine.cpus >= cpus and (memory is None or machine.usable >= memory)


def smallest_machines(cloud: str, cpus: float, memory: Memory | None) -> list[MachineType]:
    """Return the smallest of every family that hold a worker; which is cheapest depends on the region."""
    best: dict[str, MachineType] = {}
    for machine in machine_types(cloud):
        if fits(machine, cpus, memory) and (machine.family not in best or machine.cpus < best[machine.family].cpus):
            best[machine.family] = machine
    if not best:
        largest = max(machine_types(cloud), key=lambda machine: (machine.memory, machine.cpus))
        asked = f"{cpus:g} vCPU{f' and {memory}' if memory else ''}"
        raise CapacityError(f"no machine type that is known here has {asked}, the largest is {largest}; name one")
    return list(best.values())
