"""A provider of the user's own, registered by a script: what a session asks of it, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalable import ClusterHandle, register_provider
from scalable.manifest.targets import REGISTERED
from tests.helpers.session.inn import Inn


class Lent(Inn):
    """Holds something beside its cluster, which only it can give back."""

    def __init__(self) -> None:
        self.given_back: list[ClusterHandle] = []

    def close(self, cluster: ClusterHandle) -> None:
        super().close(cluster)
        self.given_back.append(cluster)


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[[Lent], Lent]:
    monkeypatch.setitem(REGISTERED, "inn", Lent)  # as it was before, after the test

    def known(provider: Lent) -> Lent:
        register_provider("inn", lambda: provider)
        return provider

    return known
