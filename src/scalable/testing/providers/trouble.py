"""The contract for bad moments: workers die, cannot be had, or are no longer wanted.

Part of ``scalable.testing.providers.ProviderContract``, which is what to run.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest

from scalable.cluster.base import ClusterHandle, DeploymentProvider, DeploymentSpec, LaunchRefused
from scalable.cluster.client import ScalableClient, WorkerKilledError
from scalable.engine.events import Loss
from scalable.errors import ScalableError, UsageError
from scalable.planning.resources import ScalePlan
from scalable.testing.providers.case import ProviderCase, moment, names_of, slowly


class LossContract(ProviderCase):
    def test_a_lost_worker_is_noticed_with_its_cause_and_replaced(
        self, spec: DeploymentSpec, shared: tuple[ClusterHandle, ScalableClient]
    ) -> None:
        handle, client = shared
        tag, other = spec.components
        heard: list[tuple[str, dict[str, Any]]] = []
        handle.backend.listeners.append(lambda kind, facts: heard.append((kind, facts)))
        [lost] = names_of(client, tag)
        client.submit(self.die, tag=tag, key="deadly")
        assert self.until(lambda: [kind for kind, _ in heard if kind == "worker-lost"])
        facts = next(facts for kind, facts in heard if kind == "worker-lost")
        assert (facts["worker"], facts["tag"]) == (lost, tag)
        assert Loss(facts["cause"]) in (Loss.WORKER_LOST, Loss.OUT_OF_MEMORY, Loss.NODE_LOST)
        assert facts["detail"]
        client.cancel("deadly")
        assert client.submit(moment, tag=tag, pure=False).result(timeout=self.workers_within_s)[0] != lost
        assert client.submit(moment, tag=other, pure=False).result(timeout=self.workers_within_s)
        self.come(client, {tag: 1, other: 1})

    def test_a_task_that_kills_every_worker_is_given_up_with_the_reason_and_its_neighbours_are_not(
        self, client: ScalableClient, spec: DeploymentSpec
    ) -> None:
        tag = next(iter(spec.components))
        deadly = client.submit(self.die_later, tag=tag, n=spec.components[tag].slots)
        neighbours = client.map(moment, range(10), tag=tag, pure=False)
        with pytest.raises(WorkerKilledError) as error:
            deadly.result(timeout=2 * self.workers_within_s)
        assert error.value.fate is not None
        assert error.value.fate.cause.value in str(error.value)
        assert len(client.gather(neighbours)) == 10

    def test_a_refusal_reaches_the_caller_and_leaves_nothing_behind(
        self, provider: DeploymentProvider, refused_spec: DeploymentSpec
    ) -> None:
        good, bad = refused_spec.components
        with self.leaving_nothing(), self.built(provider, refused_spec) as handle, handle.client_factory() as client:
            with pytest.raises(LaunchRefused) as error:
                provider.scale(handle, ScalePlan({bad: 2}))
            assert str(error.value)
            self.until(lambda: not handle.backend.members)
            assert not handle.backend.members
            provider.scale(handle, ScalePlan({good: 1}))
            assert client.submit(moment, tag=good).result(timeout=self.workers_within_s)


class ClosingContract(ProviderCase):
    def test_closing_leaves_nothing_behind_and_may_be_done_again_and_by_others(
        self, provider: DeploymentProvider, spec: DeploymentSpec
    ) -> None:
        with self.leaving_nothing():
            handle = provider.build_cluster(spec)
            with handle.client_factory() as client:
                provider.scale(handle, ScalePlan(dict.fromkeys(spec.components, 1)))
                self.come(client, dict.fromkeys(spec.components, 1))
                client.map(moment, range(5), tag=next(iter(spec.components)))
            closers = [threading.Thread(target=provider.close, args=(handle,)) for _ in range(3)]
            for closer in closers:
                closer.start()
            for closer in closers:
                closer.join(timeout=self.workers_within_s)
            assert not any(closer.is_alive() for closer in closers)
            provider.close(handle)

    def test_closing_while_work_is_done_leaves_nothing_behind(
        self, provider: DeploymentProvider, spec: DeploymentSpec
    ) -> None:
        tag = next(iter(spec.components))
        with self.leaving_nothing():
            handle = provider.build_cluster(spec)
            with handle.client_factory() as client:
                provider.scale(handle, ScalePlan({tag: 1}))
                self.come(client, {tag: 1})
                futures = client.map(slowly, range(200), tag=tag)
                self.until(lambda: futures[0].done())
                provider.close(handle)

    def test_closing_while_workers_start_leaves_nothing_behind(
        self, provider: DeploymentProvider, spec: DeploymentSpec
    ) -> None:
        with self.leaving_nothing():
            handle = provider.build_cluster(spec)
            start = threading.Thread(target=self.try_to_scale, args=(provider, handle, spec))
            start.start()
            self.until(lambda: handle.backend.members)
            provider.close(handle)
            start.join(timeout=self.workers_within_s)
            assert not start.is_alive()

    @staticmethod
    def try_to_scale(provider: DeploymentProvider, handle: ClusterHandle, spec: DeploymentSpec) -> None:
        with suppress(ScalableError, RuntimeError):  # it is closed meanwhile
            provider.scale(handle, ScalePlan(dict.fromkeys(spec.components, 2)))

    def test_a_closed_cluster_says_so(self, provider: DeploymentProvider, spec: DeploymentSpec) -> None:
        handle = provider.build_cluster(spec)
        provider.close(handle)
        with pytest.raises(UsageError, match="closed"):
            provider.scale(handle, ScalePlan(dict.fromkeys(spec.components, 1)))
