"""The interface of a cloud that launches workers; each backend writes one ``Fleet``, in plain calls.

All calls may block and may be made from several threads. Whatever a fleet makes carries the run's id, so that ``clear``
finds it in another process, too: the one that cleans up after a driver that was killed.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from scalable.cluster.base import WorkerFate, WorkerTemplate
from scalable.errors import UsageError
from scalable.manifest.targets import unpinned
from scalable.planning.capacity import CapacityError
from scalable.quantities import Memory

RUN_TAG = "scalable-run"
"""The key of the tag or label that everything of a run has."""
NAME_TAG = "scalable-worker"
KNOWN_AFTER_S = 60.0
"""How long a cloud may deny what it has just made: its answers come from copies that follow one another."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of one worker, as the cloud tells it."""

    waits: str = ""
    """Why it does not run yet; empty once it does."""
    fate: WorkerFate | None = None


class Fleet(Protocol):
    noun: str
    """What a worker is there: a task, an instance."""
    kinds: set[str]
    """Tags that have or may have a secret: ``clear`` removes it by its name, whatever the cloud lists."""

    def check(self, template: WorkerTemplate) -> str:
        """Return why a worker of this kind can never be had; empty if it can."""
        ...

    def open(self) -> None:
        """Look at what must be there, such as the network. Makes nothing; raises if it is not."""
        ...

    def prepare(self) -> None:
        """Make what all workers of the run share. Called once, before the first kind."""
        ...

    def publish(self, template: WorkerTemplate, handout: str) -> str:
        """Keep what is handed to workers of a kind where only they get it; says where for ``clouds.start``."""
        ...

    def start(self, name: str, template: WorkerTemplate, arguments: Sequence[str]) -> str:
        """Ask for one worker and say what the cloud calls it; raises ``LaunchRefused``."""
        ...

    def look(self, ids: Sequence[str]) -> dict[str, Seen]:
        """Return how these are; those that the cloud does not know are left out."""
        ...

    def stop(self, ids: Sequence[str]) -> None:
        """Have these ended; returns when the cloud has promised to."""
        ...

    def clear(self) -> list[str]:
        """Remove all that the run has made, as far as that is possible now; names what is left."""
        ...

    def clean_up_command(self) -> list[str]:
        """Return the command line of a program that calls ``clear`` and succeeds when nothing is left."""
        ...


class CloudError(Exception):
    """A call that the cloud did not do; ``passing`` if the same call may succeed later."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


def plain(name: str, most: int = 40) -> str:
    """Return a name that clouds take: small letters, digits, dashes; names that differ stay different."""
    kept = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if kept == name and len(kept) <= most:
        return kept
    mark = hashlib.blake2b(name.encode(), digest_size=3).hexdigest()
    return f"{kept[: most - 7].rstrip('-')}-{mark}"


def image_problem(image: str | None) -> str:
    """Return what is wrong with an image's name; empty if it always means the same."""
    if not image:
        return "has no image; write image: registry/name:version"
    problem = unpinned(image)
    return f"{problem}; name a version or a digest" if problem else ""


def unfit(image: str | None, size: Callable[[], object]) -> str:
    """Return why a worker cannot be had; empty if it can. ``size`` raises ``CapacityError`` where it is too large."""
    if problem := image_problem(image):
        return problem
    try:
        size()
    except CapacityError as error:
        return str(error)
    return ""


def unreachable(address: str, networks: Iterable[str], where: str) -> None:
    """Raise unless a driver at this address is in the workers' own network."""
    ranges = list(networks)
    if any(ipaddress.ip_address(address) in ipaddress.ip_network(block) for block in ranges):
        return
    raise UsageError(
        f"workers in {where} ({', '.join(ranges)}) could not reach this machine at {address}; run this on a machine in "
        "that network, or write in the target how they reach it: contact_address: …, and port: … if a firewall is "
        "between"
    )


MARK = "scalable-worker-ended"
STOP_WITHIN_S = 30  # from notice to kill: running tasks have 20 s, handing over 8
CANNOT_PULL = 125  # Docker's own exit status for containers that it could not start
LAST_LINES = 5  # of the worker's log, on the console
ENDED = re.compile(rf"{MARK} code=(-?\d+) oom=(true|false)")
REASON = re.compile(r"scalable worker: ([^\r\n]+)")


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a worker, as its machine told it before it switched itself off."""

    code: int
    out_of_memory: bool
    message: str = ""


def boot_script(
    image: str,
    command: Sequence[str],
    *,
    memory: Memory | None = None,
    gpus: int = 0,
    before: Sequence[str] = (),
    beside: Sequence[str] = (),
) -> str:
    """Return the program of a machine hired for one worker: run its container, pass notices on, switch off.

    Written for the first boot of an image with Docker. It holds no secret. Its last lines go to the machine's console,
    where the driver reads how the worker ended; the machine switches itself off, so that none runs on without a driver.
    ``before`` are lines that come before the image is pulled; ``beside`` those that run while the worker does.
    """
    run = ["docker", "run", "--detach", "--name=scalable-worker", "--network=host", "--init"]
    run.append(f"--stop-timeout={STOP_WITHIN_S}")
    if memory is not None:
        run += [f"--memory={memory.bytes}", f"--memory-swap={memory.bytes}"]
    if gpus:
        run.append("--gpus=all")
    lines = [
        "#!/bin/bash",
        "set -o pipefail",
        "console() { tee -a /dev/console; }",
        "finish() {",
        f'  echo "{MARK} code=$1 oom=$2" | console',
        "  sync; sleep 2; shutdown -h now; exit",
        "}",
        *before,
        f"docker pull --quiet {shlex.quote(image)} 2>&1 | console || {{",
        f"  echo {shlex.quote(f'scalable worker: cannot pull {image}')} | console; finish {CANNOT_PULL} false",
        "}",
        f"{shlex.join([*run, image, *command])} 2>&1 | console || {{",
        f"  echo {shlex.quote(f'scalable worker: cannot run {image}')} | console; finish {CANNOT_PULL} false",
        "}",
        *beside,
        "code=$(docker wait scalable-worker)",
        f"docker logs --tail {LAST_LINES} scalable-worker 2>&1 | console",
        'finish "$code" "$(docker inspect --format \'{{.State.OOMKilled}}\' scalable-worker)"',
    ]
    return "\n".join(lines) + "\n"


def ending(console: str) -> Ending | None:
    """Return how the worker ended according to the console; nothing if it does not say."""
    ends = ENDED.findall(console)
    if not ends:
        return None
    reasons = REASON.findall(console)
    return Ending(int(ends[-1][0]), ends[-1][1] == "true", reasons[-1] if reasons else "")
