"""Places that change hands: a kind of workers that has work and no worker gets those of idle workers of others."""

from __future__ import annotations

from scalable.engine import fleet
from scalable.engine.events import Instruction
from scalable.engine.state import State, WorkerRecord
from scalable.engine.workers import dismiss

NEEDED = "idle, others need its place"


def make_room(state: State, now: float) -> list[Instruction]:
    """Send idle workers away whose places a starved kind needs.

    Nothing else would serve its work, so neither a cooldown nor an idle time nor a minimum holds.
    """
    out: list[Instruction] = []
    for tag, tags in state.tags.items():
        work = fleet.cramped(state, tag)
        if work and now >= max(tags.ask_again, fleet.cooled_down(state, tag)) and fleet.affordable(state, tag, 1, now):
            out += [dismiss(state, worker, NEEDED) for worker in in_the_way(state, tag, work)]
    return out


def in_the_way(state: State, tag: str, work: int) -> list[WorkerRecord]:
    """Idle workers of other kinds that must go for the work of a tag; none where that does not help it."""
    others = [state.tags[other] for other in fleet.sharing(state, tag)]
    free = [w for t in others if not (t.queue.size or t.ahead or t.outside) for w in fleet.idle(state, t)]
    free.sort(key=lambda worker: state.rules.kinds[worker.tag].pool != state.rules.kinds[tag].pool)
    counts = {other: record.workers + record.requested for other, record in state.tags.items()}
    room, enough = fleet.fitting(state, tag, counts), 0
    for number, worker in enumerate(free, start=1):
        if room >= work:
            break
        counts[worker.tag] -= 1
        more = fleet.fitting(state, tag, counts)
        if more > room:
            room, enough = more, number
    return free[:enough]
