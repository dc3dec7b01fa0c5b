"""A provider of the user's own, registered by a script: what a session asks of it, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from scalable import ClusterHandle, DeploymentSpec, ProviderError, load_file
from tests.helpers.session.builders import Project
from tests.helpers.session.own_provider import Lent, register

__all__ = ["register"]


class Strange(Lent):
    def build_cluster(self, spec: DeploymentSpec) -> ClusterHandle:
        return ClusterHandle(SimpleNamespace(close=lambda: None), lambda: pytest.fail("nobody gets a client"))


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
