"""What can go wrong with making things go wrong."""

from __future__ import annotations

from scalable.errors import ScalableError


class ChaosError(ScalableError):
    """A fault that was not made; the message says why and what to do instead."""


class NoVictimError(ChaosError):
    """There is nothing on this machine, or no longer, that the fault could be made with; a moment later may differ."""
