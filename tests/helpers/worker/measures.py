"""What a worker measures: itself with all it has started, and its machine, by the clock it is given."""

from __future__ import annotations

from scalable import proc


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def tree_cpu_s(pid: int) -> float:
    """Return the seconds of CPU that a process and its descendants have used."""
    return sum(map(proc.cpu_s, proc.tree(pid)))
