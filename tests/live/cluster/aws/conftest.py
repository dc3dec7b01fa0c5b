"""The fixtures of this backend."""

from tests.helpers.cluster.aws.fixtures import hands, server

__all__ = ["hands", "server"]
