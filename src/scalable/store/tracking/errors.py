"""What may go wrong with an MLflow server. None of it ends a sweep: it becomes a warning, and most of it passes."""

from __future__ import annotations

from scalable.errors import ScalableError


class TrackingError(ScalableError):
    """A place that no sweep can be logged to as it is written, or a server that did not take one."""


class UnreachableError(TrackingError):
    """The server is down, overloaded or broken: worth another try soon."""


class ForbiddenError(TrackingError):
    """The server does not let us in: worth another try when somebody has changed that."""


class RejectedError(TrackingError):
    """The server understood and refused what it was sent: no try will be better."""
