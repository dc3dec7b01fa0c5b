"""Machines: node types with their prices, pools of nodes, and the sizes of workers."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from scalable.errors import QuantityError
from scalable.manifest.fields import Count, CountOrNone, Flag, Section, Text
from scalable.quantities import Cpu, Duration, Memory, Price


class Allocatable(Section):
    cpu: Cpu
    memory: Memory


class Resources(Section):
    """CPU and memory, and GPUs where there are any."""

    cpu: Cpu
    memory: Memory
    gpus: CountOrNone = 0


class NodeType(Section):
    """A machine's size and price."""

    cpu: Cpu
    memory: Memory
    gpus: CountOrNone = 0
    allocatable: Allocatable | None = None
    """What is left for pods after the system's share; all of it when not given."""
    price: Price | None = None

    @model_validator(mode="after")
    def sane(self) -> NodeType:
        if self.cpu.millis == 0 or self.memory.bytes == 0:
            raise QuantityError("a node needs CPU and memory above 0", "write e.g. {cpu: 16, memory: 64GiB}")
        left = self.allocatable
        if left and (left.cpu.millis == 0 or left.memory.bytes == 0):
            raise QuantityError("a node must have something to give", f"write up to {self.cpu} CPU", ("allocatable",))
        if left and (left.cpu > self.cpu or left.memory > self.memory):
            raise QuantityError(
                "allocatable is more than the node has",
                f"write at most {self.cpu} CPU, {self.memory}",
                ("allocatable",),
            )
        return self


class Toleration(Section):
    """A taint of nodes that workers put up with."""

    key: Text | None = None
    """All taints when not given, with operator: Exists."""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """All effects when not given."""

    @model_validator(mode="after")
    def sane(self) -> Toleration:
        if self.operator == "Exists" and self.value:
            raise QuantityError("operator: Exists takes no value", "remove the value, or write operator: Equal")
        if self.key is None and self.operator == "Equal":
            raise QuantityError("a toleration without a key needs operator: Exists", "write key: NAME")
        return self

    @property
    def written(self) -> dict[str, str]:
        """As Kubernetes takes it."""
        return {name: value for name, value in self.model_dump(exclude_defaults=True).items() if value}


class Pool(Section):
    """A set of identical nodes: ``count`` of them always on, or from ``min`` to ``max`` as work comes and goes."""

    node: Text
    count: Count | None = None
    min: CountOrNone = 0
    max: Count | None = None
    used: Allocatable | None = None
    """What other services take of each node; such a pool serves work only where a sweep names it."""
    provision: Duration = Duration(180)
    """From asking for a node until work can start on it."""
    idle: Duration = Duration(600)
    """How long an empty node is kept, and paid."""
    labels: dict[str, Text] = {}
    """What its nodes are labelled with; on Kubernetes workers of the pool select these."""
    tolerations: list[Toleration] = []
    """Of the taints that keep others off its nodes, for workers of the pool."""

    @model_validator(mode="after")
    def bounds(self) -> Pool:
        if (self.count is None) == (self.max is None):
            raise QuantityError("a pool has either count or max", "write count: 1, or min: 0 and max: 6")
        if self.count is not None and self.min:
            raise QuantityError("a pool with a count has no min", "write min and max instead of count", ("min",))
        if self.max is not None and self.min > self.max:
            raise QuantityError(f"min {self.min} is above max {self.max}", f"write min: {self.max} or less", ("min",))
        return self

    @property
    def most(self) -> int:
        return self.count or self.max or 0

    @property
    def least(self) -> int:
        return self.count or self.min


class Peak(Section):
    """Memory a worker was seen to use: usually, and at most."""

    typical: Memory
    highest: Memory

    @model_validator(mode="before")
    @classmethod
    def short(cls, value: Any) -> Any:
        if isinstance(value, dict | Peak):
            return value
        memory = Memory.parse(value)
        return {"typical": memory, "highest": memory}

    @model_validator(mode="after")
    def ordered(self) -> Peak:
        if self.highest < self.typical:
            raise QuantityError(
                "the highest peak is under the typical one", f"write highest: {self.typical} or more", ("highest",)
            )
        return self


class Profile(Section):
    """The size of a worker."""

    request: Resources
    """What the scheduler sets aside for it."""
    limit: Resources
    """What it may use at most."""
    peak: Peak | None = None
    """What it was seen to use; the request when not known. One that is not the shipped profile's own holds whatever is
    measured."""
    alone: Flag = False
    """A sweep on it runs while no other sweep does."""
    min_nodes: Count = 1
    """It is spread over at least this many nodes."""

    @model_validator(mode="after")
    def ordered(self) -> Profile:
        wrong = []
        for name in ("cpu", "memory", "gpus"):
            request, limit = getattr(self.request, name), getattr(self.limit, name)
            if request > limit:
                what = f"the request of {request} {name} is over the limit of {limit}"
                wrong.append(QuantityError(what, f"write at most {limit}, or raise the limit", ("request", name)))
        if self.limit.cpu.millis == 0 or self.limit.memory.bytes == 0:
            remedy = "write e.g. limit: {cpu: 4, memory: 8GiB}"
            wrong.append(QuantityError("a limit of 0 runs nothing", remedy, ("limit",)))
        if self.request.cpu.millis == 0 and self.request.memory.bytes == 0:
            remedy = "write e.g. request: {cpu: 2, memory: 2GiB}"
            wrong.append(QuantityError("a request of 0 sets nothing aside", remedy, ("request",)))
        QuantityError.raise_all(wrong)
        return self

    @property
    def memory_peak(self) -> Memory:
        return self.peak.typical if self.peak else self.request.memory
