"""The interface of a place that keeps artefacts, what it tells of them, and what may go wrong there."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypedDict, Unpack

from scalable.errors import ScalableError
from scalable.wording import shown

STAGE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,149}")  # what is the name of a folder everywhere
KEY = re.compile(r"[A-Za-z0-9_-]{1,150}")  # the same with room for an ending

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
ELSEWHERE = "name another place with  artefacts:  in the manifest"

Reachable = Collection[str] | Callable[[str], bool]
"""Keys that may still be asked for, or who knows of one whether it may."""


class ArtefactError(ScalableError):
    """A result that could not be kept or fetched."""


@dataclass(frozen=True, slots=True)
class Artefact:
    """The kept result of a stage; times are seconds since 1970."""

    stage: str
    key: str
    bytes: int
    written: float
    used: float
    """When it was last loaded; object stores do not record that, there it is when it was written."""


class Conditions(TypedDict, total=False):
    """The conditions of a collection: it removes what meets every one that is given."""

    older_than_s: float | None
    """Used longer ago than that."""
    keep_bytes: int | None
    """The longest unused, until the others take no more than that."""
    reachable: Reachable | None
    """None of these."""
    dry_run: bool
    """Only tell what would go."""


@dataclass(frozen=True, slots=True)
class Collected:
    """The artefacts that a collection removed, or would remove."""

    removed: tuple[Artefact, ...]
    bytes: int
    """Of those removed and of the leftovers of interrupted work."""
    kept: int
    in_use: int
    """How many of those kept would have gone if no live process had registered them."""
    leftovers: int = 0


class Artefacts(Protocol):
    """Results of stages, each kept under the key of all that decided it."""

    url: str

    def load(self, stage: str, key: str) -> Any:
        """Return the value, or ``MISSING``; a damaged one counts as missing and is set aside."""

    def save(self, stage: str, key: str, value: Any) -> int:
        """Keep a value, which appears whole or not at all; how many bytes it takes."""

    def claimed(self, stage: str, key: str) -> AbstractContextManager[None]:
        """Be the only one to compute a value. Whoever else does is waited for, unless it dies: look again within."""

    def scratch(self, stage: str, key: str) -> Path | None:
        """Return a folder for half-done work that survives a kill and goes when the value is saved, or None."""

    def list(self) -> Iterator[Artefact]: ...

    def using(self, name: str, keys: Iterable[str]) -> AbstractContextManager[None]:
        """Keep these keys from being collected for as long as this process lives and is within."""

    def collect(self, **conditions: Unpack[Conditions]) -> Collected:
        """Remove what meets every condition given, the longest unused first; never what is in use.

        Without a condition only the leftovers of interrupted work go.
        """


def check_names(stage: str, key: str) -> None:
    """Raise unless both can be names of files: what is none is refused, not mangled."""
    if not STAGE.fullmatch(stage):
        raise ArtefactError(f"{shown(stage)} is no name of a stage; write letters, digits, '_', '-' and '.'")
    if not KEY.fullmatch(key):
        raise ArtefactError(f"{shown(key)} is no key of stage {stage}; write letters, digits, '_' and '-'")


def trouble(doing: str, place: str, error: BaseException) -> ArtefactError:
    """Return the error of a disk or an object store with its remedy."""
    number = error.errno if isinstance(error, OSError) else None
    if number in FULL:
        remedy = f"free some space (scalable admin cache gc --older-than 7d), or {ELSEWHERE}"
    elif number in FORBIDDEN or isinstance(error, PermissionError):
        remedy = f"let this user write there, or {ELSEWHERE}"
    elif number in (errno.ENOTDIR, errno.EEXIST):
        remedy = f"a file is where a folder must be: move it away, or {ELSEWHERE}"
    elif isinstance(error, FileNotFoundError):
        remedy = f"make the bucket or folder, or {ELSEWHERE}"
    else:
        remedy = f"check that the place can be reached, or {ELSEWHERE}"
    reason = (error.strerror if isinstance(error, OSError) and error.strerror else str(error)) or type(error).__name__
    return ArtefactError(f"{place}: {doing}: {reason}; {remedy}")
