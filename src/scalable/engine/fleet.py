"""Workers: joining, leaving, being lost, and how many to ask for or give back."""

from __future__ import annotations

from scalable.engine.events import AddWorkers, Alert, Instruction, RemoveWorker, WorkersRefused
from scalable.engine.rules import KILL_WITHIN_S
from scalable.engine.scaling import wanted
from scalable.engine.state import NEVER, RunRecord, State, TagRecord, WorkerRecord

MAX_REFUSALS = 3  # refused requests in a row before waiting runs are given up
REFUSAL_DELAY_S = 60.0  # before asking again; doubles up to LATE_AFTER_S
LATE_AFTER_S = 300.0  # I1: workers that take longer to appear are reported


def join(state: State, worker: str, tag: str, now: float) -> None:
    tags = state.tags[tag]
    if worker in state.workers:
        return
    state.fleet += 1
    state.workers[worker] = WorkerRecord(worker, tag, state.rules.kinds[tag].slots)
    tags.workers += 1
    tags.requested = max(0, tags.requested - 1)
    tags.requested_at = now if tags.requested else NEVER
    tags.refusals = 0
    tags.idle[worker] = now


def retire(state: State, record: WorkerRecord) -> None:
    """From now on the worker gets no work and does not count, nor does the work that will end with it."""
    if not record.leaving:
        for run in record.runs:
            state.count(state.runs[run], active=False)
        record.leaving = True
        state.fleet += 1
        tags = state.tags[record.tag]
        tags.workers -= 1
        tags.leaving += 1
        tags.busy -= bool(record.runs)
        tags.idle.pop(record.id, None)


def dismiss(state: State, record: WorkerRecord, reason: str, *, forced: bool = False) -> RemoveWorker:
    retire(state, record)
    record.told = True
    return RemoveWorker(record.id, record.tag, reason, forced)


def gone(state: State, record: WorkerRecord) -> None:
    """The worker no longer exists."""
    retire(state, record)
    state.fleet += 1
    state.tags[record.tag].leaving -= 1
    del state.workers[record.id]


def refused(state: State, event: WorkersRefused, now: float) -> list[Instruction]:
    tags = state.tags[event.tag]
    state.fleet += 1
    tags.requested = max(0, tags.requested - event.count)
    tags.requested_at = now if tags.requested else NEVER
    tags.refusals += 1
    tags.ask_again = now + min(REFUSAL_DELAY_S * 2 ** (tags.refusals - 1), LATE_AFTER_S)
    return [Alert("workers-refused", f"{event.count} × {event.tag} refused: {event.reason}")]


def occupy(state: State, worker: WorkerRecord, run: str) -> None:
    tags = state.tags[worker.tag]
    if not worker.runs:
        tags.busy += 1
        tags.idle.pop(worker.id, None)
    worker.runs.add(run)


def vacate(state: State, worker: WorkerRecord, run: str, now: float) -> None:
    worker.runs.discard(run)
    if not worker.runs and not worker.leaving:
        tags = state.tags[worker.tag]
        tags.busy -= 1
        tags.idle[worker.id] = now


def demand(state: State, tag: str) -> int:
    """Workers that the runnable work of a tag can use: the busy ones and as many as the queue would fill.

    No sweep counts more than it asks for.
    """
    slots, tags = state.rules.kinds[tag].slots, state.tags[tag]
    total = 0
    for sweep in state.sweeps.values():
        if sweep.running and (active := sweep.active.get(tag)):
            total += min(sweep.sweep.workers, -(-active // slots))
    return min(total, tags.busy + -(-tags.queue.size // slots))


def rescale(state: State, tag: str, now: float) -> list[Instruction]:
    """Ask for workers or give idle ones back."""
    kind, tags = state.rules.kinds[tag], state.tags[tag]
    stopped = bool(state.paused or state.braked)
    live = tags.workers + tags.requested
    work = tags.busy if stopped else max(demand(state, tag), tags.busy)
    if not tags.idle and live >= max(work, kind.minimum):
        return []
    room = room_for(state, tag)
    minimum = 0 if stopped else min(kind.minimum, room)
    target, reason = wanted(
        active=live,
        busy=tags.busy,
        work=work,
        minimum=minimum,
        maximum=min(room, kind.maximum) if kind.maximum is not None else room,
        up=0.0,  # what waits here found no idle worker, so the rest is busy
        down=0.0,  # workers go by the time they were idle, see shrink
    )
    if target > live:
        return grow(state, tag, target - live, reason, now)
    returning = 0 if stopped else -(-tags.returning // kind.slots)
    return shrink(state, tag, live, max(minimum, tags.busy + returning), now)


def room_for(state: State, tag: str) -> int:
    """The most workers of a tag there may be: what the pool holds, and what is left of a limit over all tags."""
    kind, tags = state.rules.kinds[tag], state.tags[tag]
    if tags.room_at != state.fleet:
        tags.room_at = state.fleet
        tags.room = state.rules.pools[kind.pool].most(tag, state.counts(kind.pool)) - tags.leaving
        if state.rules.most_workers is not None:
            others = sum(t.workers + t.requested + t.leaving for other, t in state.tags.items() if other != tag)
            tags.room = max(0, min(tags.room, state.rules.most_workers - others - tags.leaving))
    return tags.room


def grow(state: State, tag: str, count: int, reason: str, now: float) -> list[Instruction]:
    kind, tags = state.rules.kinds[tag], state.tags[tag]
    pool = state.pools[kind.pool]
    cooled = pool.last_down + state.rules.policies.scaling.cooldown.seconds
    if now < max(cooled, tags.ask_again):
        return []
    count = affordable(state, tag, count, now)
    if not count:
        return []
    state.spending.promise(state.rules.pools[kind.pool].commitment(tag, count))
    state.fleet += 1
    tags.requested += count
    tags.requested_at = min(tags.requested_at, now)
    pool.last_up = now
    tags.late_reported = False
    return [AddWorkers(tag, count, reason)]


def affordable(state: State, tag: str, count: int, now: float) -> int:
    """As many of the workers as the budget allows to start and to do one run each."""
    pool = state.rules.pools[state.rules.kinds[tag].pool]
    if state.spending.budget is None or pool.price is None:
        return count
    expected = shortest_expected(state, tag) + KILL_WITHIN_S
    low, high = 0, count
    while low < high:
        middle = (low + high + 1) // 2
        if state.spending.affords(now, pool.commitment(tag, middle, expected), seconds=expected):
            low = middle
        else:
            high = middle - 1
    return low


def startable(state: State, now: float, record: RunRecord) -> bool:
    """Whether the money covers a run to its expected end."""
    return state.spending.affords(now, seconds=record.run.expected_s or 0.0)


def out_of_money(state: State, now: float) -> bool:
    """Work waits, nothing runs, and neither a start nor a worker can be paid."""
    waiting = [tag for tag, record in state.tags.items() if record.queue.size]
    if not waiting or state.paused or any(sweep.live for sweep in state.sweeps.values()):
        return False
    for tag in waiting:
        record = state.tags[tag]
        if record.requested or (record.workers and state.spending.affords(now, seconds=shortest_expected(state, tag))):
            return False
        if not record.workers and affordable(state, tag, 1, now):
            return False
    return True


def shortest_expected(state: State, tag: str) -> float:
    """Of the runs that are next in their groups."""
    queue = state.tags[tag].queue
    return min((line[0].run.expected_s or 0.0 for line in queue.waiting.values() if line), default=0.0)


def shrink(state: State, tag: str, live: int, floor: int, now: float) -> list[Instruction]:
    """Give back workers that were idle long enough while nothing waits for them."""
    tags, policy = state.tags[tag], state.rules.policies.scaling
    if not tags.idle or (len(tags.queue) and not (state.paused or state.braked)):
        return []
    pool = state.pools[state.rules.kinds[tag].pool]
    if now < pool.last_up + policy.cooldown.seconds:
        return []
    removed: list[Instruction] = []
    crowded = others_wait_for_room(state, tag)
    while tags.idle and live > floor:
        worker, since = next(iter(tags.idle.items()))
        if now < since + policy.idle.seconds and not crowded:
            break
        reason = "idle, others need its place" if crowded else "idle"
        removed.append(dismiss(state, state.workers[worker], reason))
        live -= 1
    if removed:
        pool.last_down = now
    return removed


def others_wait_for_room(state: State, tag: str) -> bool:
    pool = state.rules.kinds[tag].pool
    return any(
        len(record.queue) and record.workers + record.requested == 0
        for other, record in state.tags.items()
        if other != tag and (state.rules.kinds[other].pool == pool or state.rules.most_workers is not None)
    )


def remove_all(state: State) -> list[Instruction]:
    """The emergency stop: every worker goes; runs were told to die before."""
    idle = [record for record in state.workers.values() if not record.told and not record.runs]
    return [dismiss(state, record, state.braked, forced=True) for record in idle]


def wake(state: State, tag: str, tags: TagRecord, now: float) -> float:
    """When something about these workers is due without any event; what is due already was done."""
    policy, kind = state.rules.policies.scaling, state.rules.kinds[tag]
    pool = state.pools[kind.pool]
    times: list[float] = []
    if tags.queue.size or tags.workers + tags.requested < kind.minimum:
        times += [pool.last_down + policy.cooldown.seconds, tags.ask_again]
    if tags.idle:
        times.append(next(iter(tags.idle.values())) + policy.idle.seconds)
        times.append(pool.last_up + policy.cooldown.seconds)
    if tags.requested and not tags.late_reported:
        times.append(tags.requested_at + LATE_AFTER_S)
    return min((when for when in times if when > now), default=NEVER)
