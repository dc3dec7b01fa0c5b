"""Tests and tools for those who build on this package.

``assert_fork_safe`` for code that runs on workers; the contracts of providers and stores, as pytest classes:
``scalable.testing.providers.ProviderContract`` and ``scalable.testing.store.StoreContract``, which need pytest.
"""

from scalable.testing.fork import assert_fork_safe

__all__ = ["assert_fork_safe"]
