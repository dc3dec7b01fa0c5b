"""A modelled world for the engine: a virtual clock, nodes that take minutes to come and go, faults on purpose."""

from scalable.planning.simulation.faults import Faults, JobFault, NodeFault
from scalable.planning.simulation.outcome import SimulationOutcome
from scalable.planning.simulation.world import NextSession, World, simulate

__all__ = ["Faults", "JobFault", "NextSession", "NodeFault", "SimulationOutcome", "World", "simulate"]
