"""A modelled world for the engine: a virtual clock, nodes that take minutes to come and go, faults on purpose."""

from scalable.simulate.faults import Faults, NodeFault, RunFault
from scalable.simulate.outcome import Outcome
from scalable.simulate.world import SimulationError, World, simulate

__all__ = ["Faults", "NodeFault", "Outcome", "RunFault", "SimulationError", "World", "simulate"]
