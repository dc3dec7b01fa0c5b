"""The fleet: what follows news of workers, how many there should be, and who makes room for whom.

A tag that has work and no worker gets the room of idle workers of other tags.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice, takewhile

from scalable.engine import allocations, budget, ending, walltime, workers
from scalable.engine.events import (
    NEVER,
    AddWorkers,
    BoundsSet,
    Instruction,
    JobLost,
    Loss,
    OutsideWork,
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
from scalable.walltime import for_work_s

MAX_REFUSALS = 3  # refused requests in a row before waiting jobs are given up
REFUSAL_DELAY_S = 60.0  # before asking again, since quotas and limits need time; doubles up to LATE_AFTER_S
START_DELAY_S = 2.0  # the same for a worker that was had and ended while it started: nothing is freed by waiting
DEFINITE = (Loss.CANNOT_START, Loss.OUT_OF_MEMORY)  # ends of a start that would come again anywhere; two are enough
UNEXPLAINED = (Loss.WORKER_LOST, Loss.WORKER_CRASHED, Loss.CANNOT_START, Loss.OUT_OF_MEMORY)
"""Losses that lie in the worker itself."""
YOUNG_S = 60.0  # a worker that lived longer did not die of how it was started
LATE_AFTER_S = 300.0  # workers that take longer to appear are reported
NEEDED = "idle, others need its place"
UNLIMITED = 10**9


def on_joined(state: State, event: WorkerJoined, now: float) -> None:
    if event.tag not in state.tags:
        state.alert("unknown-tag", f"the worker {event.worker} has the unknown tag {event.tag!r}")
        return
    workers.join(state, event.worker, event.tag, now, event.allocation)
    whole = state.rules.kinds[event.tag].walltime
    left_s = event.left_s if event.left_s is not None or whole is None else for_work_s(whole.seconds)
    if left_s is not None:
        walltime.note_end(state, state.workers[event.worker], max(0.0, left_s), now)
    state.touched.add(event.tag)


def on_lost(state: State, event: WorkerLost, now: float) -> None:
    record = state.workers.get(event.worker)
    if record is None:
        return
    workers.retire(state, record)
    cause = Loss.STOPPED if record.dismissed else event.cause  # whom we sent away for another job's sake
    record.dismissed = True
    for job in list(reversed(record.ahead)):  # before those that had begun, or they would begin in turn
        ending.return_unbegun(state, state.jobs[job], now)
    for job in list(record.jobs):
        job_record = state.jobs[job]
        loss = JobLost(job, job_record.attempt, job_record.killed_for or cause, event.peak, event.message)
        ending.lost(state, job_record, loss, now)
    note_death(state, record, cause, now)
    workers.forget(state, record)
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
    come_no_more(state, event.tag, event.count, now)
    tag_record = state.tags[event.tag]
    if event.cause in DEFINITE:
        tag_record.refusals += 2
    elif event.cause is None or not tag_record.faltered:  # workers of one request that fail alike count once
        tag_record.refusals += 1
    tag_record.faltered = event.cause is not None
    delay = REFUSAL_DELAY_S if event.cause is None else START_DELAY_S
    tag_record.ask_again = now + min(delay * 2 ** min(tag_record.refusals - 1, 10), LATE_AFTER_S)
    state.alert("workers-refused", f"{event.count} × {event.tag} refused: {event.reason}")
    if hopeless(tag_record):
        for record in tag_record.queue.all():
            ending.stop(state, record, f"no worker could be had: {event.reason}", Loss.STOPPED)
        state.out.append(WorkersGivenUp(event.tag, event.reason))


def on_withdrawn(state: State, event: WorkersWithdrawn, now: float) -> None:
    if event.tag in state.tags:
        come_no_more(state, event.tag, event.count, now)


def come_no_more(state: State, tag: str, count: int, now: float) -> None:
    """Count on so many fewer of the workers that were asked for."""
    tag_record = state.tags[tag]
    state.fleet += 1
    tag_record.requested = max(0, tag_record.requested - count)
    tag_record.requested_at = now if tag_record.requested else NEVER
    state.touched.add(tag)


def on_outside(state: State, event: OutsideWork, now: float) -> None:
    if event.tag in state.tags:
        workers.note_outside_work(state, event, now)
        state.touched.add(event.tag)
        for worker in [w for w in state.workers.values() if w.leaving and w.tag == event.tag]:
            workers.release(state, worker)


def on_bounds(state: State, event: BoundsSet, now: float) -> None:
    if event.tag in state.tags:
        tag_record = state.tags[event.tag]
        tag_record.minimum, tag_record.maximum = event.minimum, event.maximum
        tag_record.within, tag_record.room_at = None, -1  # what somebody sets holds
        for worker in event.leaving:
            if record := state.workers.get(worker):
                workers.retire(state, record)
                record.dismissed = True
                workers.take_back(state, record)
        state.touched.add(event.tag)


def note_death(state: State, record: WorkerRecord, cause: Loss, now: float) -> None:
    """Ask less and less often if workers die that had just joined and not worked: others may die of the same."""
    tag_record = state.tags[record.tag]
    if record.served or now - record.joined >= YOUNG_S:
        tag_record.died_young = 0
    elif cause in UNEXPLAINED and not tag_record.faltered:
        tag_record.died_young += 1
        tag_record.faltered = True
        if tag_record.died_young > 1:
            tag_record.ask_again = now + min(START_DELAY_S * 2 ** min(tag_record.died_young - 2, 10), LATE_AFTER_S)
        if tag_record.died_young == MAX_REFUSALS:
            text = f"{record.tag} workers die right after they join ({cause.value}); they are tried less and less often"
            state.alert("workers-die-young", text)


def hopeless(tag_record: TagRecord) -> bool:
    """Tell whether no worker is there or to come and asking has failed often enough."""
    return tag_record.refusals >= MAX_REFUSALS and tag_record.workers + tag_record.requested == 0


def demand(state: State, tag: str, ending: Collection[str] = ()) -> int:
    """Return how many workers a tag's work can use: the busy ones and as many as the jobs that wait would fill.

    No sweep counts more than it asks for. Work from outside counts in full. Workers that end soon, with what they do,
    are left out.
    """
    slots, tag_record = state.rules.kinds[tag].slots, state.tags[tag]
    others = 0
    if tag_record.lent:
        lent = (w for w in state.workers.values() if w.tag == tag and w.outside and not w.jobs and not w.leaving)
        others = sum(worker.id not in ending for worker in lent)
    waiting = tag_record.queue.size + (
        0 if tag_record.idle else tag_record.ahead
    )  # an idle worker is there already for those
    busy = tag_record.busy - sum(state.workers[name].busy for name in ending)
    ours = min(tag_record.asked, busy - others + -(-waiting // slots))
    return ours + others + -(-tag_record.outside // slots)


def rescale(state: State, tag: str, now: float) -> list[Instruction]:
    """Ask for workers or give idle ones back."""
    kind, tag_record = state.rules.kinds[tag], state.tags[tag]
    stopped = bool(state.paused or state.braked)
    ending = replaced(tag_record) if not stopped else {}
    live = tag_record.workers + tag_record.requested - len(ending)
    busy = tag_record.busy - sum(state.workers[name].busy for name in ending)
    work = busy if stopped else max(demand(state, tag, ending), busy)
    least = tag_record.minimum - len(ending)  # those that end soon are there now
    if not tag_record.idle and live >= max(work, least):
        return []
    room = min(room_for(state, tag), room_at_once(state, tag)) - len(ending)
    if live < least and any(cramped(state, other) for other in sharing(state, tag)):
        room = min(room, max(live, work))  # what is being made for work that waits is not for workers without any
    minimum = 0 if stopped else max(0, min(least, room))
    maximum = min(room, tag_record.maximum) if tag_record.maximum is not None else room
    target, reason = wanted(
        active=live,
        busy=busy,
        work=work,
        minimum=minimum,
        maximum=maximum,
        up=0.0,  # what waits found no idle worker, so the rest is busy
        down=0.0,  # workers go by the time they were idle, see shrink
    )
    if target > live:
        count = allocations.rounded_up(state, tag, target - live, maximum - live)
        return grow(state, tag, count, max(0, minimum - live), reason, now)
    surplus: list[Instruction] = []
    if tag_record.maximum is not None:  # those in whose place others came do not count
        surplus = give_back(state, tag, tag_record.workers - len(ending) - max(tag_record.maximum, minimum))
    returning = 0 if stopped else -(-tag_record.returning // kind.slots)
    floor = max(minimum, tag_record.busy + returning)
    return [*surplus, *shrink(state, tag, live - len(surplus), floor, now)]


def replaced(tag_record: TagRecord) -> dict[str, None]:
    """Return the workers in whose place others are wanted, since they end soon and work waits."""
    return tag_record.ending if tag_record.queue.size or tag_record.outside else {}


def room_at_once(state: State, tag: str) -> int:
    """Return the most workers of a tag there may be if those about to end count, but for one that hands results over.

    That one may go only when another is there to take them.
    """
    if state.rules.most_at_once is None:
        return UNLIMITED
    records = state.tags.values()
    most = max(state.rules.most_at_once, sum(record.minimum for record in records))
    there = sum(record.workers + record.requested for name, record in state.tags.items() if name != tag)
    return most - there - sum(worker.leaving and not worker.holding for worker in state.workers.values())


def room_for(state: State, tag: str) -> int:
    """Return the most workers of a tag there may be; those told to go and not gone yet still take room."""
    tag_record = state.tags[tag]
    if tag_record.room_at != state.fleet:
        tag_record.room_at = state.fleet
        counts = {other: t.workers + t.requested + t.leaving for other, t in state.tags.items()}
        tag_record.room = max(0, fitting(state, tag, counts) - tag_record.leaving)
    return tag_record.room


def fitting(state: State, tag: str, counts: Mapping[str, int]) -> int:
    """Return how many of a tag fit beside the others: what the pool holds, within a limit over all tags."""
    kinds, most = state.rules.kinds, most_together(state, tag)
    in_pool = {other: count for other, count in counts.items() if kinds[other].pool == kinds[tag].pool}
    room = state.rules.pools[kinds[tag].pool].most(tag, in_pool)
    if most is None:
        return room
    return min(room, most - sum(count for other, count in counts.items() if other != tag))


def most_together(state: State, tag: str) -> int | None:
    """Return how many workers of all tags there may be for another one of this tag to be added."""
    limits = (state.rules.most_workers, state.tags[tag].within)
    return min((limit for limit in limits if limit is not None), default=None)


def sharing(state: State, tag: str) -> list[str]:
    """Return the other tags whose workers may take the room of this one's."""
    kinds, limited = state.rules.kinds, most_together(state, tag) is not None
    return [other for other in state.tags if other != tag and (limited or kinds[other].pool == kinds[tag].pool)]


def cramped(state: State, tag: str) -> int:
    """Return how many workers a starved tag can use if it finds no room for them all, else 0."""
    tag_record = state.tags[tag]
    if not tag_record.starved:
        return 0
    work = demand(state, tag)
    work = work if tag_record.maximum is None else min(work, max(tag_record.maximum, tag_record.minimum))
    return work if work > room_for(state, tag) else 0


def grow(state: State, tag: str, count: int, least: int, reason: str, now: float) -> list[Instruction]:
    """Ask for workers. The ``least`` among them, which are missing to the minimum, wait for no cooldown."""
    tag_record = state.tags[tag]
    if now < cooled_down(state, tag):
        count = least
    if now < tag_record.ask_again:
        return []
    count = budget.affordable(state, tag, count, now)
    if not count:
        return []
    budget.promise(state, tag, count, now)
    state.fleet += 1
    tag_record.requested += count
    tag_record.requested_at = min(tag_record.requested_at, now)
    tag_record.last_up = now
    tag_record.late_reported = tag_record.faltered = False
    return [AddWorkers(tag, count, reason)]


def cooled_down(state: State, tag: str) -> float:
    """Return when workers of a tag may be asked for again after idle ones were given back."""
    return state.tags[tag].last_down + state.rules.policies.scaling.cooldown.seconds


def shrink(state: State, tag: str, live: int, floor: int, now: float) -> list[Instruction]:
    """Give back workers that were idle long enough while nothing waits for them."""
    tag_record, policy = state.tags[tag], state.rules.policies.scaling
    waiting = tag_record.queue.size or tag_record.ahead or tag_record.outside
    if not tag_record.idle or (waiting and not (state.paused or state.braked)):
        return []
    if now < tag_record.last_up + policy.cooldown.seconds:
        return []
    long_enough = takewhile(lambda w: now >= tag_record.idle[w.id] + policy.idle.seconds, idle(state, tag_record))
    chosen = allocations.to_give_back(state, long_enough, max(0, live - floor), now)
    removed: list[Instruction] = [workers.dismiss(state, worker, "idle") for worker in chosen]
    for worker in chosen:
        state.tags[worker.tag].last_down = now
    return removed


def give_back(state: State, tag: str, count: int) -> list[Instruction]:
    """Send idle workers away at once: there are more than the maximum, which must have been lowered."""
    chosen = list(islice(idle(state, state.tags[tag]), max(0, count)))
    return [workers.dismiss(state, worker, "more than the maximum", forced=True) for worker in chosen]


def idle(state: State, tag_record: TagRecord) -> Iterator[WorkerRecord]:
    """Return the workers that can be given back, longest idle first."""
    return (worker for worker in map(state.workers.__getitem__, tag_record.idle) if not worker.holding)


def drop_idle(state: State) -> None:
    """Send away every worker that has no work and keeps no results, while paused."""
    for worker in list(state.workers.values()):
        if not (worker.busy or worker.leaving or worker.holding):
            state.out.append(workers.dismiss(state, worker, state.paused, forced=True))


def remove_all(state: State) -> list[Instruction]:
    """Send every worker away as soon as its jobs, which were told to die before, are dead."""
    idle = [record for record in state.workers.values() if not record.dismissed and not record.jobs]
    return [workers.dismiss(state, record, state.braked, forced=True) for record in idle]


def wake(state: State, tag: str, tag_record: TagRecord, now: float) -> float:
    """Return when something about these workers is due without any event; what is due already was done."""
    policy = state.rules.policies.scaling
    times: list[float] = []
    if (
        tag_record.queue.size
        or tag_record.ahead
        or tag_record.outside
        or tag_record.workers + tag_record.requested < tag_record.minimum
    ):
        times += [cooled_down(state, tag), tag_record.ask_again]
    if tag_record.idle:
        longest = next(idle(state, tag_record), None)
        since = tag_record.idle[longest.id] if longest else NEVER
        times += [since + policy.idle.seconds, tag_record.last_up + policy.cooldown.seconds]
    if tag_record.loaded:
        times.append(next(iter(tag_record.loaded.values())) + PATIENCE_S)
    if tag_record.requested and not tag_record.late_reported:
        times.append(tag_record.requested_at + LATE_AFTER_S)
    return min((when for when in times if when > now), default=NEVER)


def make_room(state: State, now: float) -> list[Instruction]:
    """Send idle workers away whose room a starved tag needs.

    Nothing else would serve its work, so neither a cooldown nor an idle time nor a minimum holds.
    """
    out: list[Instruction] = []
    for tag, tag_record in state.tags.items():
        work = cramped(state, tag)
        if work and now >= max(tag_record.ask_again, cooled_down(state, tag)) and budget.affordable(state, tag, 1, now):
            out += [workers.dismiss(state, worker, NEEDED) for worker in in_the_way(state, tag, work)]
    return out


def in_the_way(state: State, tag: str, work: int) -> list[WorkerRecord]:
    """Return the idle workers of other tags that must go for the work of this one; none if that does not help it."""
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
