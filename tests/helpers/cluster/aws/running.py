"""Work on Fargate and on EC2, end to end against moto's server: scaled, adapted, lost, closed with nothing left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalable.cluster.aws.account import Account
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


def left_behind(run: str) -> list[str]:
    """All that AWS still has of a run."""
    ecs, ec2, secrets = (Account(REGION).client(name) for name in ("ecs", "ec2", "secretsmanager"))
    mine = [{"Name": "tag:scalable-run", "Values": [run]}]
    alive = [*mine, {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}]
    clusters = ecs.describe_clusters(clusters=[f"scalable-{run}"])["clusters"]
    found = [one["clusterArn"] for one in clusters if one["status"] != "INACTIVE"]
    found += [one for one in ecs.list_task_definitions(status="ACTIVE")["taskDefinitionArns"] if run in one]
    found += [one["Name"] for one in secrets.list_secrets()["SecretList"] if run in one["Name"]]
    found += [one["GroupId"] for one in ec2.describe_security_groups(Filters=mine)["SecurityGroups"]]
    for reservation in ec2.describe_instances(Filters=alive)["Reservations"]:
        found += [one["InstanceId"] for one in reservation["Instances"]]
    return found


@pytest.fixture(scope="class", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)
