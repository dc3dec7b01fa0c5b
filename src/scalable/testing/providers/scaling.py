"""The contract about numbers of workers: those that are asked for, no more, no fewer, no others.

Part of ``scalable.testing.providers.ProviderContract``, which is what to run.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from scalable.cluster.base import ClusterHandle, DeploymentProvider, DeploymentSpec
from scalable.cluster.client import ScalableClient
from scalable.errors import UnknownTagError, UsageError
from scalable.planning.resources import ScalePlan
from scalable.testing.providers.case import ProviderCase, moment, names_of, workers_of


class ScalingContract(ProviderCase):
    def test_it_scales_up_and_down_to_exact_counts(self, provider: DeploymentProvider, spec: DeploymentSpec) -> None:
        first, second = spec.components
        with self.built(provider, spec) as handle, handle.client_factory() as client:
            for counts in ({first: 2, second: 1}, {first: 1, second: 2}, {first: 0, second: 1}, {first: 0, second: 0}):
                provider.scale(handle, ScalePlan(counts))
                self.come(client, counts)
                assert client.worker_count() == sum(counts.values())
            time.sleep(0.3)
            assert client.worker_count() == 0, "workers came back"

    def test_the_same_plan_again_changes_nothing(
        self, provider: DeploymentProvider, spec: DeploymentSpec, shared: tuple[ClusterHandle, ScalableClient]
    ) -> None:
        handle, client = shared
        before = names_of(client)
        provider.scale(handle, ScalePlan(dict.fromkeys(spec.components, 1)))
        time.sleep(0.2)
        assert names_of(client) == before

    def test_tags_a_plan_does_not_name_stay_as_they_are(
        self, provider: DeploymentProvider, spec: DeploymentSpec, shared: tuple[ClusterHandle, ScalableClient]
    ) -> None:
        handle, client = shared
        first, second = spec.components
        provider.scale(handle, ScalePlan({first: 2}))
        self.come(client, {first: 2, second: 1})
        provider.scale(handle, ScalePlan({first: 1}))
        self.come(client, {first: 1, second: 1})

    def test_results_survive_when_their_worker_is_given_back(
        self, provider: DeploymentProvider, spec: DeploymentSpec, shared: tuple[ClusterHandle, ScalableClient]
    ) -> None:
        handle, client = shared
        tag = next(iter(spec.components))
        provider.scale(handle, ScalePlan({tag: 2}))
        self.come(client, {tag: 2})
        places = [place for place, worker in workers_of(client).items() if tag in worker["resources"]]
        futures = [client.submit(moment, tag=tag, pure=False, workers=[place]) for place in 2 * places]
        before = client.gather(futures)
        assert len({name for name, _ in before}) == 2
        provider.scale(handle, ScalePlan({tag: 1}))
        self.come(client, {tag: 1})
        again = [future.result(timeout=self.workers_within_s) for future in futures]
        assert again == before, "they were computed again"

    def test_a_tag_that_is_not_defined_is_refused_with_those_that_are(
        self, provider: DeploymentProvider, spec: DeploymentSpec, shared: tuple[ClusterHandle, ScalableClient]
    ) -> None:
        handle, client = shared
        wrong: list[Callable[[], object]] = [
            lambda: provider.scale(handle, ScalePlan({"no such tag": 1})),
            lambda: client.submit(moment, tag="no such tag"),
            lambda: client.map(moment, [1], tag="no such tag"),
            lambda: client.worker_count("no such tag"),
        ]
        for use in wrong:
            began = time.monotonic()
            with pytest.raises(UnknownTagError) as error:
                use()
            assert time.monotonic() - began < self.workers_within_s / 2, "it waited for workers first"
            assert all(tag in str(error.value) for tag in spec.components)
        self.come(client, dict.fromkeys(spec.components, 1))

    def test_a_negative_count_is_refused_and_nothing_changes(
        self, provider: DeploymentProvider, spec: DeploymentSpec, shared: tuple[ClusterHandle, ScalableClient]
    ) -> None:
        handle, client = shared
        first, second = spec.components
        with pytest.raises(UsageError):
            provider.scale(handle, ScalePlan({first: 2, second: -1}))
        self.come(client, dict.fromkeys(spec.components, 1))
