"""How long runs take, as measured, and how many of them a worker is given at once.

The price of a message does not depend on how long a run takes, so short runs travel several at a time. The window is
a fraction of a second of work: large enough that a worker never waits for its next run, small enough that little lies
in the wrong place when a worker is lost, another one joins or one of the runs turns out to be long.
"""

from __future__ import annotations

from dataclasses import dataclass

UNIT_S = 0.3  # of work that lies ready on a worker, per slot; a message and its answer take a hundredth of that
MOST_AHEAD = 64  # per slot; more would not make a message cheaper
PATIENCE_S = 4 * UNIT_S  # after so long without a begin, what waits on a worker is taken back
WEIGHT = 0.2  # of the newest run in the mean


@dataclass(slots=True)
class Pace:
    """A moving mean that believes a long run at once and a short one slowly."""

    mean: float = 0.0
    known: bool = False
    window: int = 0
    """How many runs may wait on a worker per slot."""

    def note(self, seconds: float) -> None:
        self.mean = self.mean + WEIGHT * (seconds - self.mean) if self.known else seconds
        self.known = True
        longest = self.mean if self.mean > seconds else seconds
        if longest > UNIT_S:
            self.window = 0
        else:
            self.window = MOST_AHEAD if longest * MOST_AHEAD <= UNIT_S else round(UNIT_S / longest)
