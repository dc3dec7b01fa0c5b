"""Stores of this tier are places on a server; and miniature sweeps that use one."""

from tests.helpers.store.fixtures import children, postgres, server_url
from tests.helpers.sweeps.faults.fixtures import make, own_postgres

url = server_url

__all__ = ["children", "make", "own_postgres", "postgres", "server_url", "url"]
