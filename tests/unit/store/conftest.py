"""Stores of this tier are files."""

from tests.helpers.store.fixtures import sqlite_url as url

__all__ = ["url"]
