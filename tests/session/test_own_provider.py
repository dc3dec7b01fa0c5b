"""A provider of the user's own, registered by a script: what a session asks of it, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from scalable import ClusterHandle, DeploymentSpec, ProviderError, load_file, register_provider
from scalable.manifest.targets import REGISTERED
from tests.session.builders import Project, here
from tests.session.test_costs import Inn


class Lent(Inn):
    """Holds something beside its cluster, which only it can give back."""

    def __init__(self) -> None:
        self.given_back: list[ClusterHandle] = []

    def close(self, cluster: ClusterHandle) -> None:
        super().close(cluster)
        self.given_back.append(cluster)


class Strange(Lent):
    def build_cluster(self, spec: DeploymentSpec) -> ClusterHandle:
        return ClusterHandle(SimpleNamespace(close=lambda: None), lambda: pytest.fail("nobody gets a client"))


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[[Lent], Lent]:
    monkeypatch.setitem(REGISTERED, "inn", Lent)  # as it was before, after the test

    def known(provider: Lent) -> Lent:
        register_provider("inn", lambda: provider)
        return provider

    return known


def test_the_provider_that_built_a_cluster_ends_it(project: Project, register: Callable[[Lent], Lent]) -> None:
    provider = register(Lent())
    session = project.session(target={"provider": "inn"})
    with session as client:
        cluster = session.cluster
        assert client.submit(here, tag="demeter").result() == "demeter-0"
    session.close()
    assert provider.given_back == [cluster]


def test_a_cluster_that_a_session_cannot_use_is_refused_and_given_back(
    project: Project, register: Callable[[Lent], Lent]
) -> None:
    provider = register(Strange())
    with pytest.raises(ProviderError, match=r"inn built a SimpleNamespace.*TaggedCluster"):
        project.session(target={"provider": "inn"}).start()
    assert len(provider.given_back) == 1


def test_whoever_reads_a_manifest_knows_it(project: Project, register: Callable[[Lent], Lent]) -> None:
    register(Lent())
    assert load_file(project.write(target={"provider": "inn"}), env={}).target == "here"
