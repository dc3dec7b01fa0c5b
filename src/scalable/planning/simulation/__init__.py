"""A modelled world for the engine: a virtual clock, nodes that take minutes to come and go, faults on purpose."""

from scalable.planning.simulation.faults import Faults, JobFault, NodeFault
from scalable.planning.simulation.outcome import Outcome
from scalable.planning.simulation.world import World, simulate

__all__ = ["Faults", "JobFault", "NodeFault", "Outcome", "World", "simulate"]
