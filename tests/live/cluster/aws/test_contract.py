"""Fargate and EC2 do what every provider must do."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import ClassVar

import pytest

from scalable.cluster.aws.provider import AwsProvider
from scalable.cluster.base import DeploymentSpec
from scalable.testing.providers import ProviderContract
from tests.helpers.cluster.aws.amazon import Hands
from tests.helpers.cluster.aws.running import a_spec


@pytest.mark.long
class TestFargate(ProviderContract):
    cluster_type: ClassVar[str] = "fargate"

    @pytest.fixture(scope="class")
    @classmethod
    def provider(cls, hands: Hands) -> AwsProvider:
        return AwsProvider()

    @pytest.fixture(scope="class")
    @classmethod
    def spec(cls, tmp_path_factory: pytest.TempPathFactory) -> DeploymentSpec:
        return a_spec(tmp_path_factory.mktemp("run"), cls.cluster_type)

    @pytest.fixture
    def refused_spec(self, spec: DeploymentSpec) -> DeploymentSpec:
        """No secret holds that much."""
        bad = replace(spec.components["large"], env={"LARGE": os.urandom(60_000).hex()})
        return replace(spec, components={**spec.components, "large": bad})


@pytest.mark.long
class TestEc2(TestFargate):
    cluster_type: ClassVar[str] = "ec2"
