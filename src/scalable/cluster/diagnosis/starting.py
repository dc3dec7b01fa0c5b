"""Reasons why requested workers are not there: queued by the backend, started and silent, or refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from shlex import quote

from scalable.cluster.diagnosis.snapshot import Awaited, Kind, Limits, Snapshot
from scalable.engine.events import Loss
from scalable.findings import Finding, Severity
from scalable.quantities import Duration
from scalable.wording import plural

ORDINARY = ("Resources", "Priority", "not looked at it yet")  # of a queue that works; they take turns
QUEUE_REMEDIES = (
    (r"Down|Inactive|NotAvail|Reserv", "write another queue in the target; sinfo lists them with their state"),
    (r"QOS|Assoc|MaxJob|Limit", "that many are not allowed at once: end other jobs, or lower max_workers"),
    (r"Held", "a held job starts after  scontrol release {job}"),
    (r"Licens|Depend|BeginTime", "an option of sbatch asks for that; see sbatch in the target"),
)
POD_REMEDIES = (
    (r"adds a node|a node is coming", "it is waited for; a node takes some minutes"),
    (
        r"adds no node|could not add|did not come",
        "raise the pool's most nodes, or lower the request of the profile until one fits a node",
    ),
    (
        r"affinity|selector|taint",
        "correct labels and tolerations of the pool, or node_selector and tolerations of the target",
    ),
    (r"no node has room", "add nodes, or lower the request of the profile or the most workers"),
    (r"image", "correct image of the target, or let the namespace pull it"),
)
LOOK_AT = "kubectl describe {job}  shows what the cluster knows of it"
SOONER = "jobs with fewer CPUs, less memory or a shorter walltime start sooner;  squeue --start --jobs={job}  estimates"


def queued(snapshot: Snapshot, kind: Kind, now: float, limits: Limits) -> Iterator[Finding]:
    """Explain workers that the backend has and has not started."""
    waiting = [worker for worker in awaited_of(snapshot, kind) if worker.queued]
    longest = max((now - worker.asked for worker in waiting), default=0.0)
    if not waiting or longest < limits.queued:
        return
    reasons = Counter(worker.queued for worker in waiting)
    words = ", ".join(f"{count} × {why}" if len(reasons) > 1 else why for why, count in reasons.most_common())
    text = f"{plural(len(waiting), f'{kind.tag} worker')} queued for {age(longest)}: {words}{needed(kind)}"
    unusual = sorted(why for why in reasons if not any(word in why for word in ORDINARY))
    yield Finding(
        "workers-queued",
        Severity.WARNING,
        kind.tag,
        text,
        queue_remedy(unusual, waiting, pods=snapshot.pods),
        essence="; ".join(unusual) or "ordinary",
    )


def queue_remedy(unusual: Sequence[str], waiting: Sequence[Awaited], *, pods: bool = False) -> str:
    job = waiting[0].job.removeprefix("job ")
    for why in unusual:
        for pattern, remedy in POD_REMEDIES if pods else QUEUE_REMEDIES:
            if re.search(pattern, why):
                return remedy.format(job=job)
    return (LOOK_AT if pods else SOONER).format(job=job)


def silent(snapshot: Snapshot, kind: Kind, now: float, limits: Limits) -> Iterator[Finding]:
    """Explain workers that run, as far as the backend knows, and have not connected."""
    started = [worker for worker in awaited_of(snapshot, kind) if worker.runs_since is not None and not worker.queued]
    late = [worker for worker in started if now - (worker.runs_since or now) >= limits.silent]
    if not late:
        return
    first, others = late[0], len(late) - 1
    who = ", ".join(filter(None, (first.job, first.node)))
    named = f"{first.name}{f' ({who})' if who else ''}{f' and {others} more' if others else ''}"
    took = age(now - (first.runs_since or now))
    do = f"have run for {took} and have" if others else f"has run for {took} and has"
    words = f"; its log ends: {first.words}" if first.words else ""
    yield Finding.warning(
        "workers-silent",
        kind.tag,
        f"{named} {do} not connected to the scheduler at {snapshot.scheduler}{words}{needed(kind)}",
        unreachable(snapshot)
        if snapshot.remote
        else f"see what its preload_script does:  scalable logs {quote(first.name)}",
    )


def unreachable(snapshot: Snapshot) -> str:
    """Return what to do when workers cannot reach the scheduler."""
    if snapshot.pods:
        return "see whether a network policy of the namespace keeps pods from it, and what  scalable logs  says"
    host, port = place(snapshot.scheduler)
    reachable = {name: ip for name, ip in snapshot.interfaces.items() if not ip.startswith("127.")}
    choice = ", ".join(f"{name} ({ip})" for name, ip in reachable.items()) or "none but loopback"
    if host.startswith("127.") or host == "localhost":
        return f"no other machine can reach {host}: write interface: NAME in the target; this machine has {choice}"
    name = next((name for name, ip in reachable.items() if ip == host), f"the name {host}")
    if host not in reachable.values() and re.fullmatch(r"[\d.]+", host):
        return f"{host} is no address of this machine ({choice}): correct contact_address of the target"
    return (
        f"nodes must reach {name} of this machine: write another interface (it has {choice}), "
        f"or port: N if a firewall closes {port}"
    )


REFUSALS = (
    ("versions-differ", r"differs from the driver", "install the same versions on both sides, in the image too"),
    ("code-differs", r"is not the driver's|project's folder .* is not there", "or write code: upload in the target"),
    ("image-missing", r"image \S+ does not exist|could not open image", "build it, or correct components.{tag}.image"),
    (
        "setup-failed",
        r"set-up step|check of the activated environment's Python",
        "correct modules, conda, setup or preload_script of the target or of components.{tag}, and start again",
    ),
    (
        "slurm-refused",
        r"sbatch refused|never start",
        "scalable doctor  asks Slurm about every component and starts nothing",
    ),
)


def refused(snapshot: Snapshot, kind: Kind, now: float, limits: Limits) -> Iterator[Finding]:
    """Explain workers that were refused, or ended before they connected."""
    refusal = kind.refusal
    if refusal is None or not (kind.waiting or kind.live < kind.minimum or now - refusal.at < limits.recent):
        return
    code, remedy = explained(snapshot, kind, refusal.reason, refusal.cause)
    tried = f" ({refusal.times} in a row)" if refusal.times > 1 else ""
    if refusal.given_up:
        code = "workers-given-up"  # news, even right after the first refusal was told
        text = f"no {kind.tag} worker can be had{tried}, and what waits for one is given up: {refusal.reason}"
    else:
        text = f"1 {kind.tag} worker did not come{tried}: {refusal.reason}{needed(kind)}"
    severity = Severity.ERROR if refusal.given_up or kind.live == 0 else Severity.WARNING
    yield Finding(code, severity, kind.tag, text, remedy, essence=re.sub("[0-9]+", "", refusal.reason))


def explained(snapshot: Snapshot, kind: Kind, reason: str, cause: Loss | None) -> tuple[str, str]:
    if "cannot reach the scheduler" in reason:
        return "cannot-connect", unreachable(snapshot) if snapshot.remote else "see what the machine's firewall forbids"
    for code, pattern, remedy in REFUSALS:
        if re.search(pattern, reason):
            return code, remedy.format(tag=kind.tag)
    if cause is Loss.OUT_OF_MEMORY:
        return "start-out-of-memory", f"raise components.{kind.tag}.memory: the start alone takes more"
    if cause is Loss.CANNOT_START:
        return "cannot-start", "correct that; the next try needs no restart of this session"
    return "workers-refused", "scalable doctor  checks the target and starts nothing"


def awaited_of(snapshot: Snapshot, kind: Kind) -> list[Awaited]:
    return [worker for worker in snapshot.awaited if worker.tag == kind.tag]


def needed(kind: Kind) -> str:
    """Return who suffers from it."""
    if not kind.waiting:
        return ""
    return "; 1 task waits" if kind.waiting == 1 else f"; {kind.waiting} tasks wait"


def place(address: str) -> tuple[str, str]:
    """Return host and port of ``tls://10.0.0.1:8786``."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    return host, port


def age(seconds: float) -> str:
    return str(Duration(max(1, round(seconds))))
