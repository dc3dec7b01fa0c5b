"""Makes things go wrong on purpose in a live run, and undoes it: to see that your setup bears what will happen anyway.

Faults by name for a run (``Scene``, ``storm``), single ones for processes you started yourself (``kill``, ``stopped``,
``starved``, ``blocked``, ``filled``), and in ``scalable.chaos.workloads`` functions that hang, crash and grow.
"""

from __future__ import annotations

from scalable.chaos.errors import ChaosError, NoVictimError
from scalable.chaos.faults import FAULTS, Fault, Scene, Wish
from scalable.chaos.processes import kill, lose, starved, stopped
from scalable.chaos.storage import blocked, filled
from scalable.chaos.storm import Made, plan, storm
from scalable.chaos.victims import Processes, Victim

__all__ = [
    "FAULTS",
    "ChaosError",
    "Fault",
    "Made",
    "NoVictimError",
    "Processes",
    "Scene",
    "Victim",
    "Wish",
    "blocked",
    "filled",
    "kill",
    "lose",
    "plan",
    "starved",
    "stopped",
    "storm",
]
