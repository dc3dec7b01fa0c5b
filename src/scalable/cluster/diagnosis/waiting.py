"""Why tasks wait although nothing is wrong with starting workers."""

from __future__ import annotations

from collections.abc import Iterator

from scalable.cluster.diagnosis.limits import Limits
from scalable.cluster.diagnosis.snapshot import Bounds, Kind, Snapshot
from scalable.cluster.diagnosis.starting import age, of
from scalable.findings import Finding
from scalable.wording import plural


def waiting_tasks(snapshot: Snapshot, kind: Kind, now: float, limits: Limits) -> Iterator[Finding]:
    if not kind.waiting or kind.waits_since is None or snapshot.paused or snapshot.stopped:
        return
    waited = now - kind.waits_since
    if kind.live == 0 and not of(snapshot, kind):
        yield from nobody(snapshot, kind, waited, limits)
    elif kind.unplaced and kind.idle and waited >= limits.waiting:
        yield Finding.error(
            "tasks-restricted",
            kind.tag,
            f"{tasks(kind.unplaced)} for {age(waited)} although {plural(len(kind.idle), f'{kind.tag} worker')} "
            f"{'is' if len(kind.idle) == 1 else 'are'} idle: the resources or workers they name are not there",
            "submit them with tag= alone, without workers= or resources=",
        )
    elif kind.live and not kind.idle and waited >= limits.full and full(snapshot, kind):
        yield Finding.note(
            "workers-full",
            kind.tag,
            f"{all_of(kind)} busy: {kind.running} tasks run, {kind.waiting} wait{allowed(snapshot, kind)}",
            f"to go faster, {more(kind)}",
        )


def nobody(snapshot: Snapshot, kind: Kind, waited: float, limits: Limits) -> Iterator[Finding]:
    """No worker of the tag is there, none was asked for, and none was refused."""
    told = f"{tasks(kind.waiting)} for {kind.tag} workers"
    never = kind.bounds is Bounds.HAND or kind.maximum == 0
    if never and waited >= limits.unasked:
        why = "none was asked for" if kind.bounds is Bounds.HAND else "at most 0 are allowed"
        yield Finding.error("nothing-asked-for", kind.tag, f"{told}, and {why}", more(kind))
    elif waited < limits.waiting or never:
        return
    elif kind.unaccepted:
        text = f"{told}; {kind.unaccepted} asked for, and the backend has not said yes or no"
        yield Finding.warning(
            "unaccepted", kind.tag, text, "it is waited for; scalable doctor  shows whether it answers"
        )
    elif full(snapshot, kind):
        held = ", ".join(f"{other.live} {other.tag}" for other in snapshot.kinds if other.live)
        text = f"{told}, but other workers have all the room there is ({held}{allowed(snapshot, kind)})"
        yield Finding.warning("no-room", kind.tag, text, more(kind))
    elif kind.cooling_s > 0:
        text = f"{told}; workers were removed a moment ago, so none is added for another {age(kind.cooling_s)}"
        yield Finding.note("cooling-down", kind.tag, text, "policies.scaling.cooldown sets that time")
    else:
        text = f"{told} for {age(waited)}; none is there or asked for"
        remedy = "scalable doctor  checks the target, scalable status  shows what happened"
        yield Finding.error("no-worker", kind.tag, text, remedy)


def full(snapshot: Snapshot, kind: Kind) -> bool:
    """No worker may be added to this tag."""
    asked = len(of(snapshot, kind))
    if kind.bounds is Bounds.HAND or (kind.maximum is not None and kind.live + asked >= kind.maximum):
        return True
    everyone = sum(other.live for other in snapshot.kinds) + len(snapshot.awaited)
    return snapshot.most_workers is not None and everyone >= snapshot.most_workers


def allowed(snapshot: Snapshot, kind: Kind) -> str:
    if kind.bounds is Bounds.HAND:
        return ""
    most = kind.maximum if kind.maximum is not None else snapshot.most_workers
    return f", and {most} is the most allowed"


def more(kind: Kind) -> str:
    """What to write to have another worker."""
    match kind.bounds:
        case Bounds.HAND:
            return f"call add_workers(n, {kind.tag!r})"
        case Bounds.ADAPTIVE:
            return "raise adaptive.maximum of the target"
        case Bounds.SCALER:
            return "raise max_workers of the AdaptiveScaler"
    return f"raise max_workers of the target, or call session.scale({{{kind.tag!r}: {(kind.maximum or 0) + 1}}})"


def all_of(kind: Kind) -> str:
    return f"the only {kind.tag} worker is" if kind.live == 1 else f"all {kind.live} {kind.tag} workers are"


def tasks(count: int) -> str:
    return "1 task waits" if count == 1 else f"{count} tasks wait"
