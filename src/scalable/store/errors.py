"""The errors of the result store."""

from __future__ import annotations

from scalable.errors import ScalableError, UsageError


class StoreError(ScalableError):
    """The store cannot be opened, read or written; the message names it and the reason."""


class StoreUrlError(StoreError, UsageError):
    """A store's URL that cannot work; the message shows one that does."""


class NoStoreError(StoreError):
    """There is no store yet, and who only reads makes none."""


class RowError(StoreError, ValueError):
    """A row that cannot be stored as it is; the message names its key and the part that is wrong."""


class RefusedError(StoreError):
    """The database is there and will not take what it was given: trying again cannot help, a person must look."""


class LeaseLostError(RefusedError):
    """The loss of a lease: whoever wants to write no longer has it; somebody else may."""


class ToldToStop(StoreError):  # noqa: N818  (a person decided it)
    """The end of waiting for a lease, by order; the message says by whom."""


class ConfigChanged(StoreError):  # noqa: N818  (not a failure of the store: somebody else was faster)
    """The live configuration is no longer the one the change was made for; the message says what it is now."""
