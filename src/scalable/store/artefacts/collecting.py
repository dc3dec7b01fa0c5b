"""The removal of artefacts: which go, in which order, in batches between which others may register theirs.

All conditions must hold: what is too old and out of reach goes, the longest unused first, until what is left is small
enough. What a live process registered stays, whatever the conditions say.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from scalable.store.artefacts.interface import Artefact, Collected, Reachable
from scalable.store.leases.files import file_lease

BATCH_S = 1.0  # the longest that somebody who wants to register waits for a collection
BATCH = 200  # artefacts removed between two looks at the clock; object stores take so many in one request
SCRATCH_KEPT_S = 7 * 86_400.0  # half-done work that nobody went on with for a week, where no other age is given


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file or folder that no artefact needs any more."""

    stage: str
    key: str
    path: Path
    bytes: int
    idle_s: float
    claim: Path | None = None
    """Whoever holds this still works on it."""
    half_done: bool = False
    """Worth something to whoever goes on with it; other leftovers are worth nothing to anybody."""


class Collectable(Protocol):
    """The interface of a folder or an object store whose artefacts can be collected."""

    def list(self) -> Iterator[Artefact]: ...

    def collecting(self) -> AbstractContextManager[set[str]]:
        """Give the keys in use; while within, nobody registers others."""

    def remove(self, gone: Sequence[Artefact]) -> None: ...

    def leftovers(self) -> Iterator[Leftover]: ...


def collect(
    artefacts: Collectable,
    *,
    older_than_s: float | None = None,
    keep_bytes: int | None = None,
    reachable: Reachable | None = None,
    dry_run: bool = False,
    now: Callable[[], float] = time.time,
) -> Collected:
    everything = list(artefacts.list())
    asked = (older_than_s, keep_bytes, reachable) != (None, None, None)
    candidates = [artefact for artefact in everything if asked and may_go(artefact, now(), older_than_s, reachable)]
    candidates.sort(key=lambda artefact: artefact.used)
    with artefacts.collecting() as in_use:
        spared = {artefact.key for artefact in chosen(candidates, everything, keep_bytes) if artefact.key in in_use}
        waiting = chosen([artefact for artefact in candidates if artefact.key not in in_use], everything, keep_bytes)
    removed: list[Artefact] = list(waiting) if dry_run else []
    while waiting and not dry_run:
        with artefacts.collecting() as in_use:
            until = time.monotonic() + BATCH_S
            while waiting and time.monotonic() < until:
                batch, waiting = waiting[:BATCH], waiting[BATCH:]
                spared |= {artefact.key for artefact in batch if artefact.key in in_use}
                gone = [artefact for artefact in batch if artefact.key not in in_use]
                artefacts.remove(gone)
                removed += gone
    leftovers = [] if dry_run else swept(artefacts, older_than_s, reachable)
    return Collected(
        removed=tuple(removed),
        bytes=sum(leftover.bytes for leftover in removed) + sum(leftover.bytes for leftover in leftovers),
        kept=len(everything) - len(removed),
        in_use=len(spared),
        leftovers=len(leftovers),
    )


def may_go(artefact: Artefact, now: float, older_than_s: float | None, reachable: Reachable | None) -> bool:
    is_old = older_than_s is None or now - artefact.used > older_than_s
    return is_old and not is_reachable(artefact.key, reachable)


def is_reachable(key: str, reachable: Reachable | None) -> bool:
    if reachable is None:
        return False
    return reachable(key) if callable(reachable) else key in reachable


def chosen(candidates: list[Artefact], everything: list[Artefact], keep_bytes: int | None) -> list[Artefact]:
    """Return the first of those that may go until what is left is small enough."""
    if keep_bytes is None:
        return candidates
    left = sum(artefact.bytes for artefact in everything)
    gone = []
    for artefact in candidates:
        if left <= keep_bytes:
            break
        gone.append(artefact)
        left -= artefact.bytes
    return gone


def swept(artefacts: Collectable, older_than_s: float | None, reachable: Reachable | None) -> list[Leftover]:
    """Remove what nobody claims and nobody will go on with."""
    kept_s = SCRATCH_KEPT_S if older_than_s is None else older_than_s
    gone = []
    with artefacts.collecting() as in_use:
        for leftover in artefacts.leftovers():
            lost = reachable is not None and not is_reachable(leftover.key, reachable)
            if (
                leftover.half_done
                and leftover.idle_s < math.inf
                and (leftover.key in in_use or not (lost or leftover.idle_s > kept_s))
            ):
                continue
            if unclaimed(leftover):
                gone.append(leftover)
    return gone


def unclaimed(leftover: Leftover) -> bool:
    """Remove a leftover, unless somebody works on it at this moment."""
    if leftover.claim is None:
        return removed(leftover.path)
    if not leftover.claim.exists():
        return removed(leftover.path)
    with file_lease(leftover.claim, wait=False) as file:
        # a claim goes when it is given up
        return file is not None and (leftover.path == leftover.claim or removed(leftover.path))


def removed(path: Path) -> bool:
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        return True
    return False
