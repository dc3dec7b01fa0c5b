"""What every provider must do, as tests that anyone can run against their own.

    class TestMyProvider(ProviderContract):
        @pytest.fixture(scope="class")
        @classmethod
        def provider(cls):
            return MyProvider()

        @pytest.fixture(scope="class")
        @classmethod
        def spec(cls, tmp_path_factory):
            return DeploymentSpec(…)  # two components that differ in cpus and env; give the target a price if it can

        @pytest.fixture
        def refused_spec(self, spec):
            return …  # the same, but workers of its second component can never be had

pytest shows the values of a failed assertion after ``pytest.register_assert_rewrite("scalable.testing.providers")``.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import psutil
import pytest
from distributed import get_worker

from scalable import proc
from scalable.engine.events import Loss
from scalable.errors import ScalableError, UnknownTagError, UsageError
from scalable.manifest.findings import ValidationReport
from scalable.providers.base import (
    THREAD_VARIABLES,
    ClusterHandle,
    DeploymentProvider,
    DeploymentSpec,
    LaunchRefused,
)
from scalable.providers.client import ScalableClient, WorkerKilledError
from scalable.sizing.resources import CostEstimate, ScalePlan

LASTING_THREADS = ("Dask-Offload", "Dask-Callback")  # made once for a whole process and kept by Dask


class ProviderContract:
    """Subclass it and give it the fixtures ``provider``, ``spec`` and ``refused_spec``, all but the last per class."""

    workers_within_s: ClassVar[float] = 60.0
    """How long a worker may take to come, to go, and to be replaced."""
    own_processes: ClassVar[bool] = True
    """Workers are processes of their own; the provider warns where they are not."""

    # What a subclass may have to say differently

    @staticmethod
    def die() -> None:
        """Called on a worker: let it be lost without notice."""
        os.kill(os.getpid(), signal.SIGKILL)

    @classmethod
    def die_later(cls) -> None:
        """The same, but not before the scheduler can know that the task runs."""
        time.sleep(1.2)
        cls.die()

    def left_behind(self) -> list[str]:
        """What is still there of clusters that were closed, as far as the backend itself knows; e.g. batch jobs."""
        return []

    # A cluster to use, and help

    @pytest.fixture(scope="class")
    @classmethod
    def standing(
        cls, provider: DeploymentProvider, spec: DeploymentSpec
    ) -> Iterator[tuple[ClusterHandle, ScalableClient]]:
        with cls.built(provider, spec) as handle, handle.client_factory() as client:
            yield handle, client

    @pytest.fixture
    def shared(
        self, provider: DeploymentProvider, spec: DeploymentSpec, standing: tuple[ClusterHandle, ScalableClient]
    ) -> tuple[ClusterHandle, ScalableClient]:
        """One worker of each tag, whatever the tests before have left; for those that leave it as it was."""
        handle, client = standing
        provider.scale(handle, ScalePlan(dict.fromkeys(spec.components, 1)))
        self.come(client, dict.fromkeys(spec.components, 1))
        return handle, client

    @pytest.fixture
    def client(self, shared: tuple[ClusterHandle, ScalableClient]) -> ScalableClient:
        return shared[1]

    @staticmethod
    @contextmanager
    def built(provider: DeploymentProvider, spec: DeploymentSpec) -> Iterator[ClusterHandle]:
        handle = provider.build_cluster(spec)
        try:
            yield handle
        finally:
            provider.close(handle)

    @contextmanager
    def leaving_nothing(self) -> Iterator[None]:
        """All processes, ports and threads that come up inside are gone afterwards."""
        before = footprint()
        yield
        self.until(lambda: not footprint() - before and not self.left_behind())
        assert footprint() - before == set()
        assert self.left_behind() == []

    @classmethod
    def until(cls, condition: Callable[[], object], within: float | None = None) -> bool:
        """Wait for something to come true; whether it did."""
        deadline = time.monotonic() + (within or cls.workers_within_s)
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    @classmethod
    def come(cls, client: ScalableClient, counts: dict[str, int]) -> None:
        """Wait until there are so many workers of each tag, not more and not fewer."""
        cls.until(lambda: {tag: client.worker_count(tag) for tag in counts} == counts)
        assert {tag: client.worker_count(tag) for tag in counts} == counts

    # The parts of the protocol

    def test_it_has_a_name(self, provider: DeploymentProvider) -> None:
        assert isinstance(provider.name, str)
        assert provider.name

    def test_it_says_what_is_wrong_and_what_is_questionable(
        self, provider: DeploymentProvider, spec: DeploymentSpec
    ) -> None:
        report = provider.validate(spec)
        assert isinstance(report, ValidationReport)
        assert report.ok, report.errors
        for issue in (*report.errors, *report.warnings):
            assert issue.code
            assert issue.message

    def test_an_estimate_of_costs_adds_up_and_follows_the_plan(
        self, provider: DeploymentProvider, spec: DeploymentSpec
    ) -> None:
        one = provider.estimate_cost(spec, ScalePlan(dict.fromkeys(spec.components, 1)))
        if one is None:
            assert provider.estimate_cost(spec, ScalePlan()) is None
            return
        two = provider.estimate_cost(spec, ScalePlan(dict.fromkeys(spec.components, 2)))
        none = provider.estimate_cost(spec, ScalePlan(dict.fromkeys(spec.components, 0)))
        assert isinstance(two, CostEstimate)
        assert isinstance(none, CostEstimate)
        assert one.provider == provider.name
        assert len(one.currency) == 3
        assert 0 < one.total_hourly < one.total_monthly
        assert two.total_hourly == pytest.approx(2 * one.total_hourly)
        assert none.total_hourly == none.total_monthly == 0
        assert {line["tag"] for line in one.line_items} == set(spec.components)
        assert sum(line["hourly"] for line in one.line_items) == pytest.approx(one.total_hourly)

    def test_building_a_cluster_starts_no_worker(self, provider: DeploymentProvider, spec: DeploymentSpec) -> None:
        with self.leaving_nothing():
            children = set(proc.tree(os.getpid()))
            with self.built(provider, spec) as handle, handle.client_factory() as client:
                assert client.worker_count() == 0
                assert all(client.worker_count(tag) == 0 for tag in spec.components)
                assert isinstance(handle.metadata, dict)
                time.sleep(0.2)
                assert client.worker_count() == 0
                assert not [pid for pid in set(proc.tree(os.getpid())) - children if is_worker(pid)]

    # Scaling

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
        places = [place for place, one in workers_of(client).items() if tag in one["resources"]]
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

    # Work

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
        here, there = client.submit(moment, 1, tag=first), client.submit(moment, 1, tag=second)
        assert here.key != there.key
        assert here.result()[0] != there.result()[0]
        assert client.submit(moment, 1, tag=first).key == here.key

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
            found = client.submit(variables, names, tag=tag).result()
            threads = str(max(1, template.cpus // template.slots))
            assert found == {**dict.fromkeys(THREAD_VARIABLES, threads), **template.env}

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

    def test_workers_that_join_later_take_their_part(self, provider: DeploymentProvider, spec: DeploymentSpec) -> None:
        tag = next(iter(spec.components))
        with self.built(provider, spec) as handle, handle.client_factory() as client:
            provider.scale(handle, ScalePlan({tag: 1}))
            self.come(client, {tag: 1})
            futures = client.map(slowly, range(60), tag=tag)
            provider.scale(handle, ScalePlan({tag: 3}))
            self.come(client, {tag: 3})
            took_part = set(client.gather(futures))

            def all_did() -> bool:
                took_part.update(client.gather(client.map(slowly, range(30), tag=tag, pure=False)))
                return len(took_part) == 3

            assert self.until(all_did)

    # Bad luck

    def test_a_lost_worker_is_noticed_with_its_cause_and_replaced(
        self, provider: DeploymentProvider, spec: DeploymentSpec
    ) -> None:
        tag, other = spec.components
        heard: list[tuple[str, dict[str, Any]]] = []
        with self.built(provider, spec) as handle, handle.client_factory() as client:
            handle.backend.listeners.append(lambda kind, facts: heard.append((kind, facts)))
            provider.scale(handle, ScalePlan({tag: 1, other: 1}))
            self.come(client, {tag: 1, other: 1})
            [lost] = names_of(client, tag)
            client.submit(self.die, tag=tag, key="deadly")
            assert self.until(lambda: [kind for kind, _ in heard if kind == "worker-lost"])
            facts = next(facts for kind, facts in heard if kind == "worker-lost")
            assert (facts["worker"], facts["tag"]) == (lost, tag)
            assert Loss(facts["cause"]) in (Loss.WORKER_LOST, Loss.OUT_OF_MEMORY, Loss.NODE_LOST)
            assert facts["detail"]
            client.cancel("deadly")
            assert client.submit(moment, tag=tag).result(timeout=self.workers_within_s)[0] != lost
            assert client.submit(moment, tag=other).result(timeout=self.workers_within_s)
            self.come(client, {tag: 1, other: 1})

    def test_a_task_that_kills_every_worker_is_given_up_with_the_reason_and_its_neighbours_are_not(
        self, provider: DeploymentProvider, spec: DeploymentSpec
    ) -> None:
        tag = next(iter(spec.components))
        with self.built(provider, spec) as handle, handle.client_factory() as client:
            provider.scale(handle, ScalePlan({tag: 1}))
            self.come(client, {tag: 1})
            deadly = client.submit(self.die_later, tag=tag, n=spec.components[tag].slots)
            neighbours = client.map(moment, range(10), tag=tag)
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

    # The end

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

    def test_two_clusters_know_nothing_of_each_other(
        self, provider: DeploymentProvider, spec: DeploymentSpec, client: ScalableClient
    ) -> None:
        tag = next(iter(spec.components))
        here = names_and_places(client)
        with self.built(provider, spec) as handle, handle.client_factory() as other:
            assert other.worker_count() == 0
            provider.scale(handle, ScalePlan({tag: 1}))
            self.come(other, {tag: 1})
            assert names_and_places(other).isdisjoint(here)
        assert names_and_places(client) == here
        assert client.submit(moment, "after the other", tag=tag).result()


def moment(*anything: object) -> tuple[str, int]:
    """Where and when it was called; another call gives another answer."""
    return str(get_worker().name), time.time_ns()


def slowly(number: int) -> str:
    time.sleep(0.05)
    return str(get_worker().name)


def variables(names: list[str]) -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in names}


def workers_of(client: ScalableClient) -> dict[str, dict[str, Any]]:
    """What the scheduler knows of each, by its address."""
    found: dict[str, dict[str, Any]] = client.scheduler_info(n_workers=-1)["workers"]
    return found


def names_of(client: ScalableClient, tag: str | None = None) -> set[str]:
    workers = workers_of(client).values()
    return {str(worker["name"]) for worker in workers if tag is None or tag in worker["resources"]}


def names_and_places(client: ScalableClient) -> set[str]:
    return set(workers_of(client))


def is_worker(pid: int) -> bool:
    try:
        return "scalable.worker" in psutil.Process(pid).cmdline()
    except psutil.Error:
        return False


def footprint() -> set[str]:
    """The processes, ports and threads of this process; what comes to them must go again."""
    found = {f"process {pid}" for pid in proc.tree(os.getpid())[1:] if proc.alive(pid)}
    ports = [one.laddr for one in psutil.Process().net_connections(kind="tcp") if one.status == psutil.CONN_LISTEN]
    found |= {f"port {address}" for address in ports}
    threads = Counter(t.name for t in threading.enumerate() if not t.name.startswith(LASTING_THREADS))
    return found | {f"thread {name} {number}" for name, count in threads.items() for number in range(count)}
