"""The fixtures of stores and miniature sweeps."""

from tests.helpers.store.fixtures import children, postgres, server_url, url
from tests.helpers.sweeps.faults.fixtures import make, own_postgres

__all__ = ["children", "make", "own_postgres", "postgres", "server_url", "url"]
