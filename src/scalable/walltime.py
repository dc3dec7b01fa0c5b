"""The phases of an allocation, the same for workers, launchers, engine and planner.

A worker starts, works, has notice, lets what it runs finish for a while, hands over the rest and closes, all of it
before the walltime ends and the batch system kills it.
"""

from __future__ import annotations

GRACE_S = 20.0  # after notice running tasks may finish for this long; Slurm kills 30 s after its SIGTERM by default
CLOSING_S = 10  # at the end of an allocation, in which a worker hands over and closes: no work runs then
EARLY_S = 90.0  # Slurm may give its notice a minute early; what comes earlier than that was not sent for the walltime
STARTING_S = 30.0  # of an allocation until its worker works, in advice
SPARE = 1.25  # times a job's length that is advised as a walltime, besides start and end
MINUTE_S = 60  # walltimes are advised in whole minutes, as Slurm counts


def for_work_s(walltime_s: float) -> float:
    """Return how much of a walltime is for work, at best.

    >>> for_work_s(60)
    50
    """
    return walltime_s - CLOSING_S


def advised_s(seconds: float) -> float:
    """Return the walltime to ask for so that a job of this length fits, in whole minutes.

    >>> advised_s(150)
    240.0
    """
    return -(-(seconds * SPARE + CLOSING_S + STARTING_S) // MINUTE_S) * MINUTE_S
