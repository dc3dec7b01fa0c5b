"""The margin table: what is left of the nodes when everything runs at once.

Two packings stand side by side. By burst (CPU limits, observed memory peaks, nominal capacity) is what the margins
promise; by request (allocatable capacity) is what a scheduler does with the requests as written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scalable.manifest.machines import NodeType, Pool, Profile
from scalable.manifest.policies import Margins
from scalable.planning.packing import pack
from scalable.planning.placement import Placement, margin, place
from scalable.planning.resources import Size, allocatable, burst, offered
from scalable.quantities import Memory, percent
from scalable.wording import plural


class MarginStatus(StrEnum):
    OK = "ok"  # every guarantee holds, nothing to mention
    WARN = "warn"  # guarantees hold, but something should be known before running
    FAIL = "fail"  # a guarantee does not hold


@dataclass(frozen=True, slots=True)
class Load:
    """Workers of one kind that run together."""

    what: str
    profile_name: str
    profile: Profile
    workers: int
    peak: Memory
    highest: Memory
    sweep: bool


@dataclass(frozen=True, slots=True)
class MarginRow:
    scenario: str
    pods: int
    cpu_burst: float
    ram_peak_gib: float
    nodes: int
    """On which the margins are counted: by burst, as they promise, or fewer where generated pods take fewer."""
    nodes_by_request: int
    """What a scheduler does with the requests as written."""
    cpu_available: float
    ram_available_gib: float
    cpu_margin: float
    ram_margin: float
    status: MarginStatus
    notes: tuple[str, ...]
    nodes_paid: int = 0
    """What pods as they are generated take."""

    def to_dict(self) -> dict[str, Any]:
        record = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "nodes_paid"}
        record["cpu_margin"], record["ram_margin"] = round(self.cpu_margin, 4), round(self.ram_margin, 4)
        return {**record, "status": self.status.value, "notes": list(self.notes)}


def margin_row(
    scenario: str, loads: Sequence[Load], node: NodeType, pool: Pool, policy: Margins, *, overlap: bool
) -> MarginRow:
    """Return a row; ``overlap`` says that different workloads run together: the CPU margin is best effort then."""
    at_least = max(load.profile.min_nodes for load in loads)
    bursts = [(burst(load.profile, load.peak), load.workers) for load in loads]
    requests = [(Size.of(load.profile.request), load.workers) for load in loads]
    room = offered(node, pool)
    promised = pack(bursts, room, at_least=at_least).count
    by_request = pack(requests, allocatable(node, pool)).count
    spread = policy.spread and pool.max is not None  # as pods are generated: fixed nodes are there anyway
    placements = [place(load.profile, node, pool, spread=spread, peak=load.peak) for load in loads]
    footprints = [(placed.footprint, load.workers) for placed, load in zip(placements, loads, strict=True)]
    taken = pack(footprints, allocatable(node, pool), at_least=at_least).count
    total = sum_sizes(bursts)
    nodes = min(promised, taken)
    have = room * nodes
    cpu_margin = margin(total.cpu.millis, have.cpu.millis)
    ram_margin = margin(total.memory.bytes, have.memory.bytes)

    notes: list[str] = []
    status = MarginStatus.OK

    def say(severity: MarginStatus, note: str) -> None:
        nonlocal status
        notes.append(note)
        status = MarginStatus.FAIL if MarginStatus.FAIL in (status, severity) else severity

    if taken > pool.most:
        say(MarginStatus.FAIL, f"needs {taken} nodes, the pool has at most {pool.most}: raise max or run less at once")
    if ram_margin <= policy.ram:
        say(MarginStatus.FAIL, f"RAM margin {percent(ram_margin)} is not over the guaranteed {policy.ram}")
    if cpu_margin <= policy.cpu and not overlap:
        say(MarginStatus.FAIL, f"CPU margin {percent(cpu_margin)} is not over the guaranteed {policy.cpu}")
    if cpu_margin <= policy.cpu and overlap:
        say(
            MarginStatus.WARN,
            f"CPU margin {percent(cpu_margin)} is under {policy.cpu}: best effort while workloads overlap",
        )
    if by_request < promised:
        fact = f"by requests the scheduler takes {plural(by_request, 'node')}, not {promised}: "
        fact += f"{total.cpu} CPU of burst on {node.cpu * by_request}"
        say(MarginStatus.WARN, f"{fact}; {cure(loads, placements, policy, promised, taken)}")
    elif taken > by_request:
        what = f"with the requests of generated pods the scheduler takes {taken} nodes where the burst needs {promised}"
        say(MarginStatus.WARN, f"{what}: they are paid; policies.margins.spread: off  to keep {by_request}")
    elif by_request > promised:
        what = f"by requests the scheduler takes {by_request} nodes where the burst needs {promised}: they are paid"
        say(MarginStatus.WARN, f"{what}; lower the requests to use fewer")
    for note in peak_notes(loads, node, pool, policy, nodes):
        say(MarginStatus.WARN, note)
    return MarginRow(
        scenario=scenario,
        pods=sum(load.workers for load in loads),
        cpu_burst=total.cpu.cores,
        ram_peak_gib=round(total.memory.gib, 2),
        nodes=nodes,
        nodes_by_request=by_request,
        cpu_available=have.cpu.cores,
        ram_available_gib=round(have.memory.gib, 2),
        cpu_margin=cpu_margin,
        ram_margin=ram_margin,
        status=status,
        notes=tuple(notes),
        nodes_paid=taken,
    )


def sum_sizes(demand: Sequence[tuple[Size, int]]) -> Size:
    total = demand[0][0] * demand[0][1]
    for size, count in demand[1:]:
        total += size * count
    return total


def cure(loads: Sequence[Load], placements: Sequence[Placement], policy: Margins, promised: int, taken: int) -> str:
    """Return what makes the promised node count happen where requests as written do not, or what would."""
    if not policy.spread:
        return "policies.margins.spread is off"
    raised = {}
    for load, placed in zip(loads, placements, strict=True):
        if placed.raised:
            asked, more = placed.request, placed.request.memory > load.profile.request.memory
            raised[load.profile_name] = f"{load.profile_name} {asked.cpu} CPU" + (f" / {asked.memory}" if more else "")
    asks = ", ".join(raised.values())
    least = max(load.profile.min_nodes for load in loads)
    apart = any(placed.footprint != placed.request for placed in placements)
    kept = f"keeps at least {least} nodes" if least > 1 else "keeps workers apart" if apart else ""
    means = [f"generated pods ask for more ({asks})" if asks else "", f"a spread constraint {kept}" if kept else ""]
    cures = " and ".join(filter(None, means))
    parts = [f"{cures}, so it takes {taken}" if cures else "", "raise the requests" if taken < promised else ""]
    return "; ".join(filter(None, parts))


def peak_notes(loads: Sequence[Load], node: NodeType, pool: Pool, policy: Margins, nodes: int) -> list[str]:
    """Note where the guarantee fails at the highest observed peaks, on what pods can really have of a node."""
    highest = sum((load.highest * load.workers for load in loads), Memory(0))
    usual = sum((load.peak * load.workers for load in loads), Memory(0))
    if highest == usual:
        return []
    nominal_left = margin(highest.bytes, node.memory.bytes * nodes)
    there = allocatable(node, pool).memory * nodes
    left = margin(highest.bytes, there.bytes)
    if min(left, nominal_left) > policy.ram:
        return []
    return [
        f"at the highest observed peaks RAM is {highest.gib:g} GiB: margin {percent(nominal_left)} of nominal, "
        f"{percent(left)} of {there.gib:g} GiB allocatable, under the guaranteed {policy.ram}"
    ]
