"""The errors of the result store."""

from __future__ import annotations

from scalable.errors import ScalableError, UsageError


class StoreError(ScalableError):
    """The store cannot be opened, read or written; the message names it and the reason."""


class StoreUrlError(StoreError, UsageError):
    """A store's URL that cannot work; the message shows one that does."""


class RowError(StoreError, ValueError):
    """A row that cannot be stored as it is; the message names its key and the part that is wrong."""
