"""The workers and the work of one moment, frozen, for the diagnosis; nothing of Dask or of a backend is in it.

All moments are in seconds of one clock, that of the ``now`` given to ``diagnose``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from scalable.engine.events import Loss


class Bounds(Enum):
    """The authority over the number of workers of a tag. It decides what a person can do about it."""

    HAND = "hand"  # add_workers and remove_workers
    FIXED = "fixed"  # a plan, or session.scale
    ADAPTIVE = "adaptive"  # the work, between the target's bounds
    SCALER = "scaler"  # an AdaptiveScaler that was handed in


@dataclass(frozen=True, slots=True)
class Awaited:
    """A worker that was asked for and is not connected."""

    name: str
    tag: str
    asked: float
    job: str = ""
    """What the backend calls it."""
    queued: str = ""
    """Why the backend has not started it, in its own words; empty once it runs."""
    runs_since: float | None = None
    node: str = ""
    words: str = ""
    """The end of its log."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The latest worker that was asked for and did not come."""

    reason: str
    at: float
    cause: Loss | None = None
    times: int = 1
    """In a row, without one that came in between."""
    given_up: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """The workers of one tag and the work for them."""

    tag: str
    bounds: Bounds = Bounds.FIXED
    minimum: int = 0
    maximum: int | None = None
    live: int = 0
    idle: tuple[float, ...] = ()
    """Since when those are idle that have nothing to do."""
    running: int = 0
    """Tasks that workers have in hand."""
    waiting: int = 0
    waits_since: float | None = None
    """Since when there is always something that waits."""
    unplaced: int = 0
    """Of what waits, how much Dask could give to no worker at all, also not to an idle one."""
    unaccepted: int = 0
    """Workers that were asked for and are neither accepted nor refused by the backend."""
    refusal: Refusal | None = None
    cooling_s: float = 0.0
    """For how long no worker is added because some were removed."""
    starts_s: tuple[float, ...] = ()
    """How long workers took from the request to their connection, the latest ones."""
    cold: int = 0
    """How often tasks had to wait for a start because no worker was there."""
    hourly: str = ""
    """What one of them costs an hour, if anything."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    kinds: tuple[Kind, ...] = ()
    awaited: tuple[Awaited, ...] = ()
    most_workers: int | None = None
    """Of all kinds together."""
    paused: str = ""
    stopped: str = ""
    """Why the budget stopped everything."""
    remote: bool = False
    """Workers are on other machines."""
    scheduler: str = ""
    interfaces: Mapping[str, str] = field(default_factory=dict)
    """Of this machine, with their addresses."""
    pods: bool = False
    """Workers are pods of a cluster, not jobs of a batch system."""
    trouble: str = ""
    """Why the backend does not answer."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds from which on something is worth a word."""

    queued: float = 30.0  # a batch system looks at its queue every half minute or so
    silent: float = 20.0  # a worker imports for 2 to 10 s, on a slow shared disk longer; it gives up after 60
    unasked: float = 5.0  # whoever submits before adding workers adds them in the next lines
    waiting: float = 15.0  # the engine looks every half second; what it could do is done by then
    full: float = 60.0  # tasks that wait their turn are the normal case; only long queues deserve a hint
    idle: float = 300.0  # people think for some minutes between two cells of a notebook
    cold_start: float = 30.0  # a start shorter than that nobody minds
    recent: float = 60.0  # how long a worker that did not come is news if nothing needs it any more


LIMITS = Limits()
COLD_STARTS = 2  # one is the price of the first task; from the second on it is a habit
