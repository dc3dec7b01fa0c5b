"""Makes things go wrong on purpose in a live run, and undoes it: to see that your setup bears what will happen anyway.

Faults by name for a run (``Scene``, ``storm``), single ones for processes you started yourself (``kill``, ``stopped``,
``starved``, ``blocked``, ``filled``), and in ``scalable.chaos.workloads`` functions that hang, crash and grow. Names
are imported when they are first used: workloads are imported in runners, which need nothing else of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalable.exports import exports

if TYPE_CHECKING:  # the names of HOMES once more, for type checkers
    # isort: off
    from scalable.chaos.faults import FAULTS as FAULTS, Fault as Fault, Scene as Scene, Wish as Wish
    from scalable.chaos.damage import (
        blocked as blocked,
        filled as filled,
        kill as kill,
        lose as lose,
        starved as starved,
        stopped as stopped,
    )
    from scalable.chaos.storms import Made as Made, plan as plan, storm as storm
    from scalable.chaos.victims import (
        ChaosError as ChaosError,
        NoVictimError as NoVictimError,
        Processes as Processes,
        Victim as Victim,
    )

HOMES = {
    "faults": ("FAULTS", "Fault", "Scene", "Wish"),
    "damage": ("blocked", "filled", "kill", "lose", "starved", "stopped"),
    "storms": ("Made", "plan", "storm"),
    "victims": ("ChaosError", "NoVictimError", "Processes", "Victim"),
}
__all__, __getattr__, __dir__ = exports(__name__, HOMES)
