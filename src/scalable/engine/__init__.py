"""Decides everything: which job starts where, what is retried, what is stuck, how many workers each pool needs.

A state machine without I/O, clock or chance: events in, instructions out. In a simulated world it is the forecast,
in the real one it is the execution.
"""

from scalable.engine.core import Engine
from scalable.engine.rules import Rules, WorkerKind
from scalable.engine.scaling import AdaptiveScaler, ScaleDecision
from scalable.engine.view import View

__all__ = ["AdaptiveScaler", "Engine", "Rules", "ScaleDecision", "View", "WorkerKind"]
