"""Work on Fargate and on EC2, end to end against moto's server: scaled, adapted, lost, closed with nothing left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalable.cluster.base import DeploymentSpec
from scalable.manifest.targets import AwsTarget
from tests.helpers.cluster.aws.amazon import REGION
from tests.helpers.cluster.scenes import PARTS

KINDS = ["fargate", "ec2"]


def a_spec(folder: Path, kind: str, **more: Any) -> DeploymentSpec:
    target = {
        "provider": "aws",
        "region": REGION,
        "cluster_type": kind,
        "image": "lab/worker:1.0",
        "contact_address": "127.0.0.1",
        "execution_role_arn": "arn:aws:iam::123456789012:role/execution",
        "instance_profile": "worker",
        "tags": {"team": "lab"},
        **more,
    }
    return DeploymentSpec("lab", "cloud", AwsTarget.model_validate(target), PARTS, run_folder=str(folder))


@pytest.fixture(scope="class", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)
