"""What can go wrong with making things go wrong."""

from __future__ import annotations

from scalable.errors import ScalableError


class ChaosError(ScalableError):
    """A fault that was not made; the message says why and what to do instead."""


class NoVictimError(ChaosError):
    """The run has nothing on this machine that the fault could be made with."""
