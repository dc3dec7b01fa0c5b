"""Stores of this tier are files, used by several processes."""

from tests.helpers.store.fixtures import children
from tests.helpers.store.fixtures import sqlite_url as url

__all__ = ["children", "url"]
