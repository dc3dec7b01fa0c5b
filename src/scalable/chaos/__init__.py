"""Makes things go wrong on purpose in a live run, and undoes it: to see that your setup bears what will happen anyway.

Faults by name for a run (``Scene``, ``storm``), single ones for processes you started yourself (``kill``, ``stopped``,
``starved``, ``blocked``, ``filled``), and in ``scalable.chaos.workloads`` functions that hang, crash and grow. Names
are imported when they are first used: workloads are imported in runners, which need nothing else of this.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scalable.chaos.errors import ChaosError, NoVictimError
    from scalable.chaos.faults import FAULTS, Fault, Scene, Wish
    from scalable.chaos.processes import kill, lose, starved, stopped
    from scalable.chaos.storage import blocked, filled
    from scalable.chaos.storms import Made, plan, storm
    from scalable.chaos.victims import Processes, Victim

HOMES = {
    "scalable.chaos.errors": ("ChaosError", "NoVictimError"),
    "scalable.chaos.faults": ("FAULTS", "Fault", "Scene", "Wish"),
    "scalable.chaos.processes": ("kill", "lose", "starved", "stopped"),
    "scalable.chaos.storage": ("blocked", "filled"),
    "scalable.chaos.storms": ("Made", "plan", "storm"),
    "scalable.chaos.victims": ("Processes", "Victim"),
}
PUBLIC = {name: home for home, names in HOMES.items() for name in names}

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


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module 'scalable.chaos' has no attribute {name!r}")
    return getattr(import_module(PUBLIC[name]), name)
