"""From when on something is worth a word."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """From when on something is worth a word, in seconds."""

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
