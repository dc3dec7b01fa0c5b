"""The fleet: what follows news of workers, how many there should be, and who makes room for whom.

A kind of workers that has work and no worker gets the places of idle workers of other kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, takewhile

from scalable.engine import budget, ending, workers
from scalable.engine.events import (
    NEVER,
    AddWorkers,
    BoundsSet,
    Instruction,
    Loss,
    OutsideWork,
    RunLost,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkersGivenUp,
    WorkersRefused,
    WorkersWithdrawn,
)
from scalable.engine.queues import PATIENCE_S
from scalable.engine.scaling import wanted
from scalable.engine.state import State, TagRecord, WorkerRecord
from scalable.findings import Finding

MAX_REFUSALS = 3  # refused requests in a row before waiting runs are given up
REFUSAL_DELAY_S = 60.0  # before asking again, since quotas and limits need time; doubles up to LATE_AFTER_S
START_DELAY_S = 2.0  # the same for a worker that was had and ended while it started: nothing is freed by waiting
DEFINITE = (Loss.CANNOT_START, Loss.OUT_OF_MEMORY)  # ends of a start that would come again anywhere; two are enough
UNEXPLAINED = (Loss.WORKER_LOST, Loss.CANNOT_START, Loss.OUT_OF_MEMORY)  # losses that lie in the worker itself
YOUNG_S = 60.0  # a worker that lived longer did not die of how it was started
LATE_AFTER_S = 300.0  # workers that take longer to appear are reported
NEEDED = "idle, others need its place"


def on_joined(state: State, event: WorkerJoined, now: float) -> None:
    if event.tag not in state.tags:
        state.alert("unknown-tag", f"the worker {event.worker} has the unknown tag {event.tag!r}")
        return
    workers.join(state, event.worker, event.tag, now)
    state.touched.add(event.tag)


def on_lost(state: State, event: WorkerLost, now: float) -> None:
    record = state.workers.get(event.worker)
    if record is None:
        return
    workers.retire(state, record)
    cause = Loss.STOPPED if record.told else event.cause  # whom we sent away for another run's sake
    record.told = True
    for run in list(reversed(record.ahead)):  # before those that had begun, or they would begin in turn
        ending.return_unbegun(state, state.runs[run], now)
    for run in list(record.runs):
        one = state.runs[run]
        told = RunLost(run, one.attempt, one.killed_for or cause, event.peak, event.message)
        ending.lost(state, one, told, now)
    state.out += died(state, record, cause, now)
    workers.gone(state, record)
    state.touched.add(record.tag)


def on_leaving(state: State, event: WorkerLeaving, now: float) -> None:
    record = state.workers.get(event.worker)
    if record is not None:
        workers.retire(state, record)
        workers.take_back(state, record)
        workers.release(state, record)
        state.touched.add(record.tag)


def on_refused(state: State, event: WorkersRefused, now: float) -> None:
    if event.tag not in state.tags:
        return
    state.out += refused(state, event, now)
    tags = state.tags[event.tag]
    state.touched.add(event.tag)
    if hopeless(tags):
        for record in tags.queue.all():
            ending.stop(state, record, f"no worker could be had: {event.reason}", Loss.STOPPED)
        state.out.append(WorkersGivenUp(event.tag, event.reason))


def on_withdrawn(state: State, event: WorkersWithdrawn, now: float) -> None:
    if event.tag in state.tags:
        withdrawn(state, event, now)
        state.touched.add(event.tag)


def on_outside(state: State, event: OutsideWork, now: float) -> None:
    if event.tag in state.tags:
        workers.outside(state, event, now)
        state.touched.add(event.tag)
        for worker in [w for w in state.workers.values() if w.leaving and w.tag == event.tag]:
            workers.release(state, worker)


def on_bounds(state: State, event: BoundsSet, now: float) -> None:
    if event.tag in state.tags:
        record = state.tags[event.tag]
        record.minimum, record.maximum = event.minimum, event.maximum
        for worker in event.leaving:
            if one := state.workers.get(worker):
                workers.retire(state, one)
                one.told = True
                workers.take_back(state, one)
        state.touched.add(event.tag)


def refused(state: State, event: WorkersRefused, now: float) -> list[Instruction]:
    tags = state.tags[event.tag]
    state.fleet += 1
    tags.requested = max(0, tags.requested - event.count)
    tags.requested_at = now if tags.requested else NEVER
    if event.cause in DEFINITE:
        tags.refusals += 2
    elif event.cause is None or not tags.faltered:  # workers of one request that fail alike count once
        tags.refusals += 1
    tags.faltered = event.cause is not None
    delay = REFUSAL_DELAY_S if event.cause is None else START_DELAY_S
    tags.ask_again = now + min(delay * 2 ** min(tags.refusals - 1, 10), LATE_AFTER_S)
    return [Finding.warning("workers-refused", "", f"{event.count} × {event.tag} refused: {event.reason}")]


def died(state: State, record: WorkerRecord, cause: Loss, now: float) -> list[Instruction]:
    """A worker was lost. If it had just joined and not worked, others may die of the same: ask less and less often."""
    tags = state.tags[record.tag]
    if record.served or now - record.joined >= YOUNG_S:
        tags.died_young = 0
    elif cause in UNEXPLAINED and not tags.faltered:
        tags.died_young += 1
        tags.faltered = True
        if tags.died_young > 1:
            tags.ask_again = now + min(START_DELAY_S * 2 ** min(tags.died_young - 2, 10), LATE_AFTER_S)
        if tags.died_young == MAX_REFUSALS:
            text = f"{record.tag} workers die right after they join ({cause.value}); they are tried less and less often"
            return [Finding.warning("workers-die-young", "", text)]
    return []


def hopeless(tags: TagRecord) -> bool:
    """No worker is there or to come, and asking has failed often enough."""
    return tags.refusals >= MAX_REFUSALS and tags.workers + tags.requested == 0


def withdrawn(state: State, event: WorkersWithdrawn, now: float) -> None:
    tags = state.tags[event.tag]
    state.fleet += 1
    tags.requested = max(0, tags.requested - event.count)
    tags.requested_at = now if tags.requested else NEVER


def demand(state: State, tag: str) -> int:
    """Workers that the runnable work of a tag can use: the busy ones and as many as the runs that wait would fill.

    No sweep counts more than it asks for. Work from outside counts in full.
    """
    slots, tags = state.rules.kinds[tag].slots, state.tags[tag]
    others = 0
    if tags.lent:
        others = sum(w.tag == tag and w.outside and not w.runs and not w.leaving for w in state.workers.values())
    waiting = tags.queue.size + (0 if tags.idle else tags.ahead)  # an idle worker is there already for those
    ours = min(tags.asked, tags.busy - others + -(-waiting // slots))
    return ours + others + -(-tags.outside // slots)


def rescale(state: State, tag: str, now: float) -> list[Instruction]:
    """Ask for workers or give idle ones back."""
    kind, tags = state.rules.kinds[tag], state.tags[tag]
    stopped = bool(state.paused or state.braked)
    live = tags.workers + tags.requested
    work = tags.busy if stopped else max(demand(state, tag), tags.busy)
    if not tags.idle and live >= max(work, tags.minimum):
        return []
    room = room_for(state, tag)
    if live < tags.minimum and any(cramped(state, other) for other in sharing(state, tag)):
        room = min(room, max(live, work))  # what is being made for work that waits is not for workers without any
    minimum = 0 if stopped else min(tags.minimum, room)
    target, reason = wanted(
        active=live,
        busy=tags.busy,
        work=work,
        minimum=minimum,
        maximum=min(room, tags.maximum) if tags.maximum is not None else room,
        up=0.0,  # what waits here found no idle worker, so the rest is busy
        down=0.0,  # workers go by the time they were idle, see shrink
    )
    if target > live:
        return grow(state, tag, target - live, max(0, minimum - live), reason, now)
    surplus = give_back(state, tag, tags.workers - max(tags.maximum, minimum)) if tags.maximum is not None else []
    returning = 0 if stopped else -(-tags.returning // kind.slots)
    floor = max(minimum, tags.busy + returning)
    return [*surplus, *shrink(state, tag, live - len(surplus), floor, now)]


def room_for(state: State, tag: str) -> int:
    """The most workers of a tag there may be; those told to go and not gone yet still take room."""
    tags = state.tags[tag]
    if tags.room_at != state.fleet:
        tags.room_at = state.fleet
        counts = {other: t.workers + t.requested + t.leaving for other, t in state.tags.items()}
        tags.room = max(0, fitting(state, tag, counts) - tags.leaving)
    return tags.room


def fitting(state: State, tag: str, counts: Mapping[str, int]) -> int:
    """How many of a tag fit beside so many of the others: what the pool holds, within a limit over all tags."""
    kinds, most = state.rules.kinds, state.rules.most_workers
    here = {other: count for other, count in counts.items() if kinds[other].pool == kinds[tag].pool}
    room = state.rules.pools[kinds[tag].pool].most(tag, here)
    if most is None:
        return room
    return min(room, most - sum(count for other, count in counts.items() if other != tag))


def sharing(state: State, tag: str) -> list[str]:
    """Other tags whose workers may take the room of this one's."""
    kinds, limited = state.rules.kinds, state.rules.most_workers is not None
    return [other for other in state.tags if other != tag and (limited or kinds[other].pool == kinds[tag].pool)]


def cramped(state: State, tag: str) -> int:
    """How many workers a starved kind can use if it finds no room for them all; else none."""
    tags = state.tags[tag]
    if not tags.starved:
        return 0
    work = demand(state, tag)
    work = work if tags.maximum is None else min(work, max(tags.maximum, tags.minimum))
    return work if work > room_for(state, tag) else 0


def grow(state: State, tag: str, count: int, least: int, reason: str, now: float) -> list[Instruction]:
    """Ask for workers. The ``least`` among them, which are missing to the minimum, wait for no cooldown."""
    kind, tags = state.rules.kinds[tag], state.tags[tag]
    if now < cooled_down(state, tag):
        count = least
    if now < tags.ask_again:
        return []
    count = budget.affordable(state, tag, count, now)
    if not count:
        return []
    room = state.rules.pools[kind.pool]
    state.spending.promise(room.commitment(tag, count, idle_nodes=state.may_have_idle_nodes(kind.pool, now)))
    state.fleet += 1
    tags.requested += count
    tags.requested_at = min(tags.requested_at, now)
    tags.last_up = now
    tags.late_reported = tags.faltered = False
    return [AddWorkers(tag, count, reason)]


def cooled_down(state: State, tag: str) -> float:
    """When workers of a tag may be asked for again after idle ones were given back."""
    return state.tags[tag].last_down + state.rules.policies.scaling.cooldown.seconds


def shrink(state: State, tag: str, live: int, floor: int, now: float) -> list[Instruction]:
    """Give back workers that were idle long enough while nothing waits for them."""
    tags, policy = state.tags[tag], state.rules.policies.scaling
    waiting = tags.queue.size or tags.ahead or tags.outside
    if not tags.idle or (waiting and not (state.paused or state.braked)):
        return []
    if now < tags.last_up + policy.cooldown.seconds:
        return []
    long_enough = takewhile(lambda w: now >= tags.idle[w.id] + policy.idle.seconds, idle(state, tags))
    chosen = list(islice(long_enough, max(0, live - floor)))
    removed: list[Instruction] = [workers.dismiss(state, worker, "idle") for worker in chosen]
    if removed:
        tags.last_down = now
    return removed


def give_back(state: State, tag: str, count: int) -> list[Instruction]:
    """Send idle workers away at once: there are more than the maximum, which must have been lowered."""
    chosen = list(islice(idle(state, state.tags[tag]), max(0, count)))
    return [workers.dismiss(state, worker, "more than the maximum", forced=True) for worker in chosen]


def idle(state: State, tags: TagRecord) -> Iterator[WorkerRecord]:
    """Workers that can be given back, longest idle first."""
    return (worker for worker in map(state.workers.__getitem__, tags.idle) if not worker.holding)


def drop_idle(state: State) -> None:
    """Scale to nothing while paused: every worker without work that keeps no results goes."""
    for worker in list(state.workers.values()):
        if not (worker.busy or worker.leaving or worker.holding):
            state.out.append(workers.dismiss(state, worker, state.paused, forced=True))


def remove_all(state: State) -> list[Instruction]:
    """The emergency stop: every worker goes; runs were told to die before."""
    idle = [record for record in state.workers.values() if not record.told and not record.runs]
    return [workers.dismiss(state, record, state.braked, forced=True) for record in idle]


def wake(state: State, tag: str, tags: TagRecord, now: float) -> float:
    """When something about these workers is due without any event; what is due already was done."""
    policy = state.rules.policies.scaling
    times: list[float] = []
    if tags.queue.size or tags.ahead or tags.outside or tags.workers + tags.requested < tags.minimum:
        times += [cooled_down(state, tag), tags.ask_again]
    if tags.idle:
        longest = next(idle(state, tags), None)
        since = tags.idle[longest.id] if longest else NEVER
        times += [since + policy.idle.seconds, tags.last_up + policy.cooldown.seconds]
    if tags.loaded:
        times.append(next(iter(tags.loaded.values())) + PATIENCE_S)
    if tags.requested and not tags.late_reported:
        times.append(tags.requested_at + LATE_AFTER_S)
    return min((when for when in times if when > now), default=NEVER)


def make_room(state: State, now: float) -> list[Instruction]:
    """Send idle workers away whose places a starved kind needs.

    Nothing else would serve its work, so neither a cooldown nor an idle time nor a minimum holds.
    """
    out: list[Instruction] = []
    for tag, tags in state.tags.items():
        work = cramped(state, tag)
        if work and now >= max(tags.ask_again, cooled_down(state, tag)) and budget.affordable(state, tag, 1, now):
            out += [workers.dismiss(state, worker, NEEDED) for worker in in_the_way(state, tag, work)]
    return out


def in_the_way(state: State, tag: str, work: int) -> list[WorkerRecord]:
    """Idle workers of other kinds that must go for the work of a tag; none where that does not help it."""
    others = [state.tags[other] for other in sharing(state, tag)]
    free = [w for t in others if not (t.queue.size or t.ahead or t.outside) for w in idle(state, t)]
    free.sort(key=lambda worker: state.rules.kinds[worker.tag].pool != state.rules.kinds[tag].pool)
    counts = {other: record.workers + record.requested for other, record in state.tags.items()}
    room, enough = fitting(state, tag, counts), 0
    for number, worker in enumerate(free, start=1):
        if room >= work:
            break
        counts[worker.tag] -= 1
        more = fitting(state, tag, counts)
        if more > room:
            room, enough = more, number
    return free[:enough]
