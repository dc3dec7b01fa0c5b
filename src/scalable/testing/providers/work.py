"""The contract about work: it goes to workers of its tag, in their size and surroundings, to no other.

Part of ``scalable.testing.providers.ProviderContract``, which is what to run.
"""

from __future__ import annotations

import pytest

from scalable.cluster.base import ClusterHandle, DeploymentProvider, DeploymentSpec
from scalable.cluster.client import ScalableClient
from scalable.errors import UsageError
from scalable.planning.resources import ScalePlan
from scalable.testing.providers.case import ProviderCase, moment, names_and_places, slowly, variables
from scalable.worker.runner.environment import THREAD_VARIABLES


class WorkContract(ProviderCase):
    def test_work_goes_to_workers_of_its_tag_and_to_no_other(
        self, client: ScalableClient, spec: DeploymentSpec
    ) -> None:
        first, second = spec.components
        futures = {tag: client.map(moment, range(20), tag=tag, pure=False) for tag in (first, second)}
        seen = {tag: {name for name, _ in client.gather(futures[tag])} for tag in futures}
        assert len(seen[first]) == len(seen[second]) == 1
        assert seen[first].isdisjoint(seen[second])

    def test_the_same_call_for_another_tag_is_another_task(self, client: ScalableClient, spec: DeploymentSpec) -> None:
        first, second = spec.components
        future, other = client.submit(moment, 1, tag=first), client.submit(moment, 1, tag=second)
        assert future.key != other.key
        assert future.result()[0] != other.result()[0]
        assert client.submit(moment, 1, tag=first).key == future.key

    def test_more_slots_than_a_worker_has_are_refused_at_once(
        self, client: ScalableClient, spec: DeploymentSpec
    ) -> None:
        for tag, template in spec.components.items():
            for wrong in (template.slots + 1, 10**9, 0, -1, 1.5, True):
                with pytest.raises(UsageError, match="slot"):
                    client.submit(moment, tag=tag, n=wrong)  # type: ignore[arg-type]
            assert client.submit(moment, "all", tag=tag, n=template.slots).result()

    def test_the_size_and_the_environment_of_a_component_reach_its_workers(
        self, provider: DeploymentProvider, client: ScalableClient, spec: DeploymentSpec
    ) -> None:
        if not self.own_processes:
            assert "shared-process" in {issue.code for issue in provider.validate(spec).warnings}
            return
        sizes = {part.cpus // part.slots for part in spec.components.values()}
        assert len(sizes) == 2, "the two components of the spec must differ in their CPUs"
        for tag, template in spec.components.items():
            names = [*THREAD_VARIABLES, *template.env]
            seen = client.submit(variables, names, tag=tag).result()
            threads = str(max(1, template.cpus // template.slots))
            assert seen == {**dict.fromkeys(THREAD_VARIABLES, threads), **template.env}

    def test_each_client_is_one_of_its_own(
        self, client: ScalableClient, shared: tuple[ClusterHandle, ScalableClient], spec: DeploymentSpec
    ) -> None:
        tag = next(iter(spec.components))
        with shared[0].client_factory() as other:
            assert isinstance(other, ScalableClient)
            assert other is not client
            assert other.submit(moment, "other", tag=tag).result()
        assert client.submit(moment, "still there", tag=tag).result()

    def test_work_that_is_submitted_first_is_done_when_workers_come(
        self, provider: DeploymentProvider, spec: DeploymentSpec
    ) -> None:
        tag = next(iter(spec.components))
        with self.built(provider, spec) as handle, handle.client_factory() as client:
            future = client.submit(moment, tag=tag)
            provider.scale(handle, ScalePlan({tag: 1}))
            assert future.result(timeout=self.workers_within_s)

    def test_workers_that_join_later_take_their_part(
        self, provider: DeploymentProvider, spec: DeploymentSpec, shared: tuple[ClusterHandle, ScalableClient]
    ) -> None:
        handle, client = shared
        tag = next(iter(spec.components))
        futures = client.map(slowly, range(60), tag=tag, pure=False)
        provider.scale(handle, ScalePlan({tag: 3}))
        self.come(client, {tag: 3})
        took_part = set(client.gather(futures))

        def all_did() -> bool:
            took_part.update(client.gather(client.map(slowly, range(30), tag=tag, pure=False)))
            return len(took_part) == 3

        assert self.until(all_did)

    def test_two_clusters_know_nothing_of_each_other(
        self, provider: DeploymentProvider, spec: DeploymentSpec, client: ScalableClient
    ) -> None:
        tag = next(iter(spec.components))
        own = names_and_places(client)
        with self.built(provider, spec) as handle, handle.client_factory() as other:
            assert other.worker_count() == 0
            provider.scale(handle, ScalePlan({tag: 1}))
            self.come(other, {tag: 1})
            assert names_and_places(other).isdisjoint(own)
        assert names_and_places(client) == own
        assert client.submit(moment, "after the other", tag=tag).result()
