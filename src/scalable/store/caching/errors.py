"""What may go wrong when results are cached: refused before the function runs, or told afterwards as a warning."""

from __future__ import annotations

from scalable.errors import ScalableError


class CachingError(ScalableError, TypeError):
    """A function, a mark or a value that cannot be cached as it is written."""


class ContentError(ScalableError, OSError):
    """A file or folder whose content should count but cannot be read."""


class CacheWarning(UserWarning):
    """A result was computed and returned but not kept: the next call computes it again."""
