"""``diagnose``: from a snapshot to findings. Pure, so that every sentence can be tested.

Why workers do not come is in ``starting``; here is why tasks wait all the same, and which workers cost without working.
"""

from __future__ import annotations

from collections.abc import Iterator

from scalable.cluster.diagnosis.snapshot import COLD_STARTS, LIMITS, Bounds, Kind, Limits, Snapshot
from scalable.cluster.diagnosis.starting import age, awaited_of, queued, refused, silent
from scalable.findings import Finding, Severity
from scalable.wording import plural


def diagnose(snapshot: Snapshot, now: float, limits: Limits = LIMITS) -> list[Finding]:
    """Return why workers do not connect, why tasks wait, why workers idle; the gravest first."""
    findings = [*everywhere(snapshot)]
    for kind in snapshot.kinds:
        findings += of_kind(snapshot, kind, now, limits)
    return sorted(findings, key=lambda finding: list(Severity).index(finding.severity), reverse=True)


def of_kind(snapshot: Snapshot, kind: Kind, now: float, limits: Limits) -> Iterator[Finding]:
    held_up = [finding for why in (queued, silent, refused) for finding in why(snapshot, kind, now, limits)]
    yield from held_up
    if not held_up:  # else that is why tasks wait
        yield from waiting_tasks(snapshot, kind, now, limits)
    yield from idle_workers(snapshot, kind, now, limits)
    yield from slow_starts(kind, limits)


def everywhere(snapshot: Snapshot) -> Iterator[Finding]:
    if snapshot.trouble:
        who, check = ("the batch system", "scontrol ping shows whether the controller is there")
        if snapshot.pods:
            who, check = "the cluster's API", "kubectl get pods shows whether it is there"
        yield Finding.warning(
            "backend-silent",
            "",
            f"{who} does not answer: {snapshot.trouble}; workers that run go on, new ones cannot be had",
            f"it is asked again by itself; {check}",
        )
    waiting = sum(kind.waiting for kind in snapshot.kinds)
    if waiting and snapshot.stopped:
        yield Finding.error(
            "budget", "", f"{tasks_are(waiting)} not started: {snapshot.stopped}", "raise the budget and start again"
        )
    elif waiting and snapshot.paused:
        remedy = "resume to go on" if "paused by" in snapshot.paused else ""  # else the cause must go
        yield Finding.error("paused", "", f"{tasks_are(waiting)} not started: {snapshot.paused}", remedy)


def tasks_are(count: int) -> str:
    return "1 task is" if count == 1 else f"{count} tasks are"


def waiting_tasks(snapshot: Snapshot, kind: Kind, now: float, limits: Limits) -> Iterator[Finding]:
    if not kind.waiting or kind.waits_since is None or snapshot.paused or snapshot.stopped:
        return
    waited = now - kind.waits_since
    if kind.live == 0 and not awaited_of(snapshot, kind):
        yield from nobody(snapshot, kind, waited, limits)
    elif kind.unplaced and kind.idle and waited >= limits.waiting:
        yield Finding.error(
            "tasks-restricted",
            kind.tag,
            f"{tasks_wait(kind.unplaced)} for {age(waited)} although {plural(len(kind.idle), f'{kind.tag} worker')} "
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
    """Explain why no worker of the tag is there, none was asked for, and none was refused."""
    waiting = f"{tasks_wait(kind.waiting)} for {kind.tag} workers"
    never = kind.bounds is Bounds.HAND or kind.maximum == 0
    if never and waited >= limits.unasked:
        why = "none was asked for" if kind.bounds is Bounds.HAND else "at most 0 are allowed"
        yield Finding.error("nothing-asked-for", kind.tag, f"{waiting}, and {why}", more(kind))
    elif waited < limits.waiting or never:
        return
    elif kind.unaccepted:
        text = f"{waiting}; {kind.unaccepted} asked for, and the backend has not said yes or no"
        yield Finding.warning(
            "unaccepted", kind.tag, text, "it is waited for; scalable doctor  shows whether it answers"
        )
    elif full(snapshot, kind):
        held = ", ".join(f"{other.live} {other.tag}" for other in snapshot.kinds if other.live)
        text = f"{waiting}, but other workers have all the room there is ({held}{allowed(snapshot, kind)})"
        yield Finding.warning("no-room", kind.tag, text, more(kind))
    elif kind.cooling_s > 0:
        text = f"{waiting}; workers were removed a moment ago, so none is added for another {age(kind.cooling_s)}"
        yield Finding.note("cooling-down", kind.tag, text, "policies.scaling.cooldown sets that time")
    else:
        text = f"{waiting} for {age(waited)}; none is there or asked for"
        remedy = "scalable doctor  checks the target, scalable status  shows what happened"
        yield Finding.error("no-worker", kind.tag, text, remedy)


def full(snapshot: Snapshot, kind: Kind) -> bool:
    """Return whether no worker may be added to this tag."""
    asked = len(awaited_of(snapshot, kind))
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
    """Return what to write to have another worker."""
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


def tasks_wait(count: int) -> str:
    return "1 task waits" if count == 1 else f"{count} tasks wait"


def idle_workers(snapshot: Snapshot, kind: Kind, now: float, limits: Limits) -> Iterator[Finding]:
    """Find workers that idle because of a minimum, or of a count that somebody set."""
    if kind.waiting:
        return
    cost = f", at {kind.hourly} an hour each" if kind.hourly else ""
    others = [other for other in snapshot.kinds if other.tag != kind.tag and other.waiting and not other.live]
    if others and kind.bounds is not Bounds.HAND and (kept := kept_for(kind, now - limits.waiting)):
        other = others[0]
        yield Finding(
            "idle-while-others-wait",
            Severity.WARNING,
            kind.tag,
            f"{named(kept, kind)} {'is' if kept == 1 else 'are'} idle{why_kept(kind)}{cost}, while "
            f"{tasks_wait(other.waiting)} for {other.tag} workers",
            f"{fewer(kind)}, or let them do both: components.{kind.tag}.tags: [{other.tag}]",
            essence=other.tag,
        )
    elif kept := kept_for(kind, now - limits.idle):
        longest = age(now - min(kind.idle))
        yield Finding(
            "idle-workers",
            Severity.WARNING if snapshot.remote or kind.hourly else Severity.NOTE,
            kind.tag,
            f"{named(kept, kind)} idle for {longest}{why_kept(kind)}{cost}",
            fewer(kind),
            essence=str(kept),
        )


def kept_for(kind: Kind, since: float) -> int:
    """Return how many are idle since then and would go if nobody had asked to keep so many."""
    idle = sum(moment <= since for moment in kind.idle)
    return idle if kind.bounds is Bounds.HAND else max(0, idle - max(0, kind.live - kind.minimum))


def why_kept(kind: Kind) -> str:
    match kind.bounds:
        case Bounds.HAND:
            return ""
        case Bounds.FIXED:
            return f", kept because {kind.minimum} {'is' if kind.minimum == 1 else 'are'} set"
    return f", kept by a minimum of {kind.minimum}"


def named(count: int, kind: Kind) -> str:
    return plural(count, f"{kind.tag} worker")


def fewer(kind: Kind) -> str:
    """Return what to write to keep fewer."""
    match kind.bounds:
        case Bounds.HAND:
            return f"call remove_workers({len(kind.idle)}, {kind.tag!r})"
        case Bounds.ADAPTIVE:
            return "lower adaptive.minimum of the target"
        case Bounds.SCALER:
            return "lower min_workers of the AdaptiveScaler"
    wish = "{minimum: 0, maximum: " + str(max(kind.maximum or 0, kind.live)) + "}"
    busy = kind.live - len(kind.idle)
    return f"write adaptive: {wish} in the target, or call session.scale({{{kind.tag!r}: {busy}}})"


def slow_starts(kind: Kind, limits: Limits) -> Iterator[Finding]:
    """Find long starts that every burst of work pays for, because no worker is kept."""
    changing = kind.bounds in (Bounds.ADAPTIVE, Bounds.SCALER)
    if not changing or kind.minimum or kind.cold < COLD_STARTS or not kind.starts_s:
        return
    mean = sum(kind.starts_s) / len(kind.starts_s)
    if mean >= limits.cold_start:
        yield Finding.warning(
            "slow-cold-starts",
            kind.tag,
            f"tasks waited {kind.cold} times for a first {kind.tag} worker, which takes {age(mean)} to start",
            f"keep one warm: {warm(kind)}, or a longer policies.scaling.idle",
        )


def warm(kind: Kind) -> str:
    return (
        "adaptive.minimum: 1 in the target" if kind.bounds is Bounds.ADAPTIVE else "min_workers of the AdaptiveScaler"
    )
