"""The errors of market data."""

from __future__ import annotations

from scalable.workloads import ScalableError


class MarketDataError(ScalableError, ValueError):
    """A file of bars that is missing or cannot be trusted; the message names file, line and remedy."""
