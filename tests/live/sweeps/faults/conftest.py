"""The fixtures of miniature sweeps."""

from tests.helpers.store.fixtures import postgres
from tests.helpers.sweeps.faults.fixtures import make, own_postgres

__all__ = ["make", "own_postgres", "postgres"]
