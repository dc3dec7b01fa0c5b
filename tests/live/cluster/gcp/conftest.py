"""The fixtures of this backend."""

from tests.helpers.cluster.gcp.fixtures import google

__all__ = ["google"]
