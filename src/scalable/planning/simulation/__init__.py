"""A modelled world for the engine: a virtual clock, nodes that take minutes to come and go, faults on purpose."""

from scalable.planning.simulation.faults import Faults, NodeFault, RunFault
from scalable.planning.simulation.outcome import Outcome
from scalable.planning.simulation.world import World, simulate

__all__ = ["Faults", "NodeFault", "Outcome", "RunFault", "World", "simulate"]
