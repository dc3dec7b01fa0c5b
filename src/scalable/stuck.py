"""The rule by which work counts as stuck: no sign of life for ``after_s`` seconds. Everybody who judges asks here.

- The engine judges the jobs of a session (``stuck_at``). Signs are reports of progress, rows that the worker persisted,
  and the CPU use of work that never reports. A long step that was declared is a sign until its end.
- A worker judges guarded tasks, which no engine watches, by what its supervisor sees.
- The supervisor judges once more before it kills on behalf of either, by the latest stamp: a message may be late.

Alerts (``Stuck``) do not decide anything; they compare the same silence with the same threshold.
"""

from __future__ import annotations

LONGEST_GAP_S = 5.0  # between two looks; a longer one is no silence of the work: this machine slept or was held up
STUCK_AFTER_S = 300  # where ``policies.stuck.after`` does not say otherwise


def is_stuck(silent_s: float, after_s: float = STUCK_AFTER_S) -> bool:
    """Return whether work that gave no sign of life for so long is stuck."""
    return silent_s >= after_s


def silence(now: float, sign: float, last_row: float) -> float:
    """Return for how long neither a sign nor a row came; negative within a long step that was declared."""
    return now - max(sign, last_row)


def stuck_at(sign: float, last_row: float, after_s: float, walltime_ends: float | None = None) -> float:
    """Return when work will be stuck if nothing more is heard of it.

    ``walltime_ends`` is given for work that never reported progress and has a walltime; a declared step may outlast it.
    """
    silent = max(sign, last_row) + after_s
    return silent if walltime_ends is None else min(silent, max(sign, walltime_ends))
