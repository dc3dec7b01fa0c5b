"""Processes that write to a server are killed at any moment: every row they were told is safe is there, once."""

from __future__ import annotations

from tests.helpers.store.killed import KilledContract


class TestPostgresql(KilledContract):
    """The place that ``url`` names."""
