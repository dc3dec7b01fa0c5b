"""Workers that come and go together: an allocation, such as a batch job, holds several and is paid as a whole.

It is asked for whole, and given back when none of its workers is needed: sending one of them away would save nothing.
Work goes to workers of busy allocations first, so that the others run empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scalable.engine.state import State, TagRecord, WorkerRecord


def join(state: State, record: WorkerRecord, allocation: str) -> None:
    """Note what a new worker shares with others; it may share nothing."""
    record.allocation = allocation
    if allocation:
        state.allocations.setdefault(allocation, {})[record.id] = None


def leave(state: State, record: WorkerRecord) -> None:
    """Note that a worker is gone, or will be."""
    peers = state.allocations.get(record.allocation)
    if peers is not None:
        peers.pop(record.id, None)
        if not peers:
            del state.allocations[record.allocation]


def rounded_up(state: State, tag: str, count: int, most: int) -> int:
    """Return how many workers to ask for instead of ``count`` so that allocations are full; ``most`` holds.

    While others are leaving, whose allocation ends for all of them, what does not fill one waits until they are gone.
    """
    together = state.rules.pools[state.rules.kinds[tag].pool].together(tag)
    asked = max(count, min(-(-count // together) * together, most))
    if asked % together and state.tags[tag].leaving:
        leaving = [worker for worker in state.workers.values() if worker.leaving and worker.tag == tag]
        if not any(worker.holding for worker in leaving):  # that one goes when another can take its results
            return asked - asked % together
    return asked


def to_give_back(state: State, candidates: Iterable[WorkerRecord], spare: int, now: float) -> list[WorkerRecord]:
    """Return which of a tag's idle workers can go, ``spare`` of them at most, with all that share their allocations."""
    chosen: dict[str, WorkerRecord] = {}
    own = 0
    for worker in candidates:
        if own >= spare:
            break
        if worker.id in chosen:
            continue
        group = [worker] if not worker.allocation else whole(state, worker, now)
        count = sum(peer.tag == worker.tag for peer in group)
        if group and own + count <= spare:
            own += count
            chosen |= {peer.id: peer for peer in group}
    return list(chosen.values())


def whole(state: State, worker: WorkerRecord, now: float) -> list[WorkerRecord]:
    """Return all workers of an allocation if none of them is needed, else none."""
    peers = [state.workers[name] for name in state.allocations.get(worker.allocation, ())]
    idle_s = state.rules.policies.scaling.idle.seconds
    for tag in dict.fromkeys(peer.tag for peer in peers):
        record = state.tags[tag]
        waits = record.queue.size or record.ahead or record.outside
        left = record.workers + record.requested - sum(peer.tag == tag for peer in peers)
        if tag != worker.tag and (waits or left < max(record.minimum, record.busy)):
            return []
        if any(now < record.idle.get(peer.id, now) + idle_s or peer.holding for peer in peers if peer.tag == tag):
            return []
    return peers


def fullest_first(state: State, tag_record: TagRecord) -> Iterator[str]:
    """Yield idle workers: those whose allocation is busiest first, and among equals the one that was busy last."""
    if not state.allocations or tag_record.queue.size >= len(tag_record.idle):  # else all of them get work
        yield from reversed(tag_record.idle)
        return
    busy = {name: sum(state.workers[peer].busy for peer in peers) for name, peers in state.allocations.items()}
    latest = list(reversed(tag_record.idle))
    latest.sort(key=lambda name: -busy.get(state.workers[name].allocation, 0))
    yield from latest
