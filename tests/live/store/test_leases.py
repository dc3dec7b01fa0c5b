"""Places across processes that share a store in a file."""

from __future__ import annotations

from tests.helpers.store.leases import LeaseContract


class TestSqlite(LeaseContract):
    """The file that ``url`` names."""
