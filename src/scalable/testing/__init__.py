"""Tests and tools for those who build on this package.

``assert_fork_safe`` for code that runs on workers; the contracts of workloads, providers and stores, as pytest classes:
``scalable.testing.WorkloadContract``, ``scalable.testing.providers.ProviderContract`` and
``scalable.testing.store.StoreContract``, which need pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalable.exports import exports

if TYPE_CHECKING:
    from scalable.testing.fork import assert_fork_safe as assert_fork_safe
    from scalable.testing.workload import WorkloadContract as WorkloadContract

HOMES = {"fork": ("assert_fork_safe",), "workload": ("WorkloadContract",)}
__all__, __getattr__, __dir__ = exports(__name__, HOMES)
