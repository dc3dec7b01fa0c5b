"""The contract of a provider, as tests that anyone can run against their own.

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
import time

import pytest

from scalable import proc
from scalable.cluster.base import DeploymentProvider, DeploymentSpec
from scalable.manifest.validation import ValidationReport
from scalable.planning.resources import CostEstimate, ScalePlan
from scalable.testing.providers.case import footprint, is_worker
from scalable.testing.providers.scaling import ScalingContract
from scalable.testing.providers.trouble import ClosingContract, LossContract
from scalable.testing.providers.work import WorkContract

__all__ = ["ProviderContract", "footprint"]


class ProviderContract(ClosingContract, LossContract, WorkContract, ScalingContract):
    """Subclass it and give it the fixtures ``provider``, ``spec`` and ``refused_spec``, all but the last per class."""

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
        single = provider.estimate_cost(spec, ScalePlan(dict.fromkeys(spec.components, 1)))
        if single is None:
            assert provider.estimate_cost(spec, ScalePlan()) is None
            return
        double = provider.estimate_cost(spec, ScalePlan(dict.fromkeys(spec.components, 2)))
        none = provider.estimate_cost(spec, ScalePlan(dict.fromkeys(spec.components, 0)))
        assert isinstance(double, CostEstimate)
        assert isinstance(none, CostEstimate)
        assert single.provider == provider.name
        assert len(single.currency) == 3
        assert 0 < single.total_hourly < single.total_monthly
        assert double.total_hourly == pytest.approx(2 * single.total_hourly)
        assert none.total_hourly == none.total_monthly == 0
        assert {line["tag"] for line in single.line_items} == set(spec.components)
        assert sum(line["hourly"] for line in single.line_items) == pytest.approx(single.total_hourly)

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
