"""Workers that cost without working, and work that waits because none was kept."""

from __future__ import annotations

from collections.abc import Iterator

from scalable.cluster.diagnosis.limits import COLD_STARTS, Limits
from scalable.cluster.diagnosis.snapshot import Bounds, Kind, Snapshot
from scalable.cluster.diagnosis.starting import age
from scalable.cluster.diagnosis.waiting import tasks
from scalable.findings import Finding, Severity
from scalable.wording import plural


def idle_workers(snapshot: Snapshot, kind: Kind, now: float, limits: Limits) -> Iterator[Finding]:
    """Idle because of a minimum, or of a count that somebody set."""
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
            f"{tasks(other.waiting)} for {other.tag} workers",
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
    """How many are idle since then and would go if nobody had asked to keep so many."""
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
    """What to write to keep fewer."""
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
    """Every burst of work pays for a start that is long, because no worker is kept."""
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
