"""A provider of the user's own, registered by a script: what a session asks of it, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable

from tests.helpers.session.builders import Project, here
from tests.helpers.session.own_provider import Lent, register

__all__ = ["register"]


def test_the_provider_that_built_a_cluster_ends_it(project: Project, register: Callable[[Lent], Lent]) -> None:
    provider = register(Lent())
    session = project.session(target={"provider": "inn"})
    with session as client:
        cluster = session.cluster
        assert client.submit(here, tag="demeter").result() == "demeter-0"
    session.close()
    assert provider.given_back == [cluster]
