"""What others need to test against this package: the contracts of providers and stores, as pytest classes.

``scalable.testing.providers.ProviderContract`` and ``scalable.testing.store.StoreContract``; both need pytest.
"""
