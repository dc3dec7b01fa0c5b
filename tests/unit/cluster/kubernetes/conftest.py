"""The fixtures of this backend."""

from tests.helpers.cluster.kubernetes.fixtures import no_reaper_stays

__all__ = ["no_reaper_stays"]
