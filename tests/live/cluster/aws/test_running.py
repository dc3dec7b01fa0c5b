"""Work on Fargate and on EC2, end to end against moto's server: scaled, adapted, lost, closed with nothing left."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scalable.cluster.aws.account import Account
from scalable.cluster.aws.ec2 import Ec2Fleet
from scalable.cluster.aws.fargate import FargateFleet
from scalable.cluster.aws.provider import AwsProvider
from scalable.cluster.base import ClusterHandle, DeploymentSpec, LaunchRefused
from scalable.engine.events import Loss
from scalable.errors import UsageError
from scalable.manifest.targets import AwsTarget
from scalable.planning.resources import ScalePlan
from scalable.session.session import ScalableSession
from tests.helpers.cluster.aws.amazon import REGION, Hands
from tests.helpers.cluster.aws.running import KINDS, a_spec, kind, left_behind
from tests.helpers.cluster.scenes import all_ended, expect_no_secrets, lose_a_worker, variable
from tests.helpers.waiting import LONG_S, until

__all__ = ["kind"]


@pytest.fixture(scope="class")
def spec(kind: str, tmp_path_factory: pytest.TempPathFactory) -> DeploymentSpec:
    return a_spec(tmp_path_factory.mktemp("run"), kind)


@pytest.fixture(scope="class")
def handle(hands: Hands, spec: DeploymentSpec) -> Iterator[ClusterHandle]:
    found = AwsProvider().build_cluster(spec)
    try:
        yield found
    finally:
        AwsProvider().close(found)


@pytest.fixture
def staffed(handle: ClusterHandle) -> ClusterHandle:
    """With a worker of each kind, whichever tests came before: two processes may share those of a class."""
    AwsProvider().scale(handle, ScalePlan({"small": 1, "large": 1}))
    return handle


class TestRun:
    """One cluster for all of these, in this order."""

    def test_building_makes_nothing(self, handle: ClusterHandle) -> None:
        assert left_behind(handle.metadata["run"]) == []

    def test_workers_come_in_kinds_and_work_with_their_environment(self, handle: ClusterHandle) -> None:
        with handle.client_factory() as client:
            AwsProvider().scale(handle, ScalePlan({"small": 1, "large": 1}))
            who = [client.submit(variable, "WHO", tag=tag, pure=False) for tag in ("small", "large")]
            assert [one.result(timeout=LONG_S) for one in who] == ["small", "large"]
            assert client.submit(variable, "SCALABLE_HANDOUT", tag="small").result(timeout=LONG_S) is None
            assert left_behind(handle.metadata["run"]) != []

    def test_nothing_that_others_may_describe_has_secrets(self, staffed: ClusterHandle, kind: str) -> None:
        expect_no_secrets(described(staffed.metadata["run"], kind), staffed)

    def test_everything_has_the_tags_of_the_run_and_of_the_user(self, staffed: ClusterHandle, kind: str) -> None:
        tags = tags_of(staffed.metadata["run"], kind)
        assert tags
        assert all(one["team"] == "lab" for one in tags)
        assert all(one["scalable-run"] == staffed.metadata["run"] for one in tags)

    def test_a_lost_worker_has_a_cause_and_is_replaced(self, staffed: ClusterHandle, kind: str) -> None:
        facts = lose_a_worker(staffed)
        assert facts["worker"].startswith("small-")
        assert {"fargate": "killed (SIGKILL)", "ec2": "switched itself off"}[kind] in facts["detail"]

    def test_it_scales_up_and_to_nothing(self, handle: ClusterHandle, hands: Hands) -> None:
        with handle.client_factory() as client:
            AwsProvider().scale(handle, ScalePlan({"small": 2, "large": 0}))
            assert until(lambda: (client.worker_count("small"), client.worker_count("large")) == (2, 0))
            AwsProvider().scale(handle, ScalePlan({"small": 0}))
            assert until(lambda: client.worker_count() == 0)
            assert until(lambda: all_ended(hands.running.values()))

    def test_closing_leaves_nothing(self, handle: ClusterHandle, hands: Hands) -> None:
        AwsProvider().scale(handle, ScalePlan({"large": 1}))
        AwsProvider().close(handle)
        assert left_behind(handle.metadata["run"]) == []
        assert until(lambda: all_ended(hands.running.values()))


def described(run: str, kind: str) -> str:
    """All that is shown to those who may describe, in one text."""
    if kind == "fargate":
        ecs = Account(REGION).client("ecs")
        cluster = f"scalable-{run}"
        tasks = ecs.describe_tasks(cluster=cluster, tasks=ecs.list_tasks(cluster=cluster)["taskArns"])["tasks"]
        definitions = [ecs.describe_task_definition(taskDefinition=one["taskDefinitionArn"]) for one in tasks]
        return str(tasks) + str(definitions)
    ec2 = Account(REGION).client("ec2")
    found = ec2.describe_instances(Filters=[{"Name": "tag:scalable-run", "Values": [run]}])["Reservations"]
    ids = [one["InstanceId"] for reservation in found for one in reservation["Instances"]]
    data = [
        ec2.describe_instance_attribute(InstanceId=one, Attribute="userData")["UserData"].get("Value", "")
        for one in ids
    ]
    return str(found) + "".join(base64.b64decode(one).decode() for one in data)


def tags_of(run: str, kind: str) -> list[dict[str, str]]:
    if kind == "fargate":
        ecs = Account(REGION).client("ecs")
        cluster = f"scalable-{run}"
        arns = ecs.list_tasks(cluster=cluster)["taskArns"]
        tasks = ecs.describe_tasks(cluster=cluster, tasks=arns, include=["TAGS"])["tasks"]
        return [{tag["key"]: tag["value"] for tag in one["tags"]} for one in tasks]
    ec2 = Account(REGION).client("ec2")
    found = ec2.describe_instances(Filters=[{"Name": "tag:scalable-run", "Values": [run]}])["Reservations"]
    return [{tag["Key"]: tag["Value"] for tag in one["Tags"]} for r in found for one in r["Instances"]]


def test_a_driver_outside_the_vpc_is_refused_before_anything_is_made(hands: Hands, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"could not reach this machine .* contact_address"):
        AwsProvider().build_cluster(a_spec(tmp_path, "fargate", contact_address=None))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"vpc": "vpc-00000000000000000"}, "InvalidVpcID.NotFound"),
        ({"subnets": ["subnet-00000000000000000"]}, "InvalidSubnetID.NotFound"),
    ],
)
def test_a_network_that_does_not_exist_is_refused_in_the_words_of_aws(
    wrong: dict[str, Any], words: str, hands: Hands, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=words):
        AwsProvider().build_cluster(a_spec(tmp_path, "fargate", **wrong))


def test_a_refusal_of_aws_reaches_the_caller_and_leaves_nothing(hands: Hands, tmp_path: Path) -> None:
    handle = AwsProvider().build_cluster(a_spec(tmp_path, "ec2", instance_profile="nobody"))
    try:
        with pytest.raises(LaunchRefused, match="Instance profile nobody not found"):
            AwsProvider().scale(handle, ScalePlan({"small": 2}))
        assert not handle.backend.members
    finally:
        AwsProvider().close(handle)
    assert left_behind(handle.metadata["run"]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_spot_capacity_is_asked_for_and_a_worker_that_cannot_start_says_why(
    kind: str, hands: Hands, tmp_path: Path
) -> None:
    """The calls one by one, with a handout that no worker can read."""
    spec = a_spec(tmp_path, kind, spot=True)
    assert isinstance(spec.target, AwsTarget)
    fleet = (FargateFleet if kind == "fargate" else Ec2Fleet)(spec.target, "5p07", "lab")
    template = spec.components["small"]
    fleet.open()
    fleet.prepare()
    source = fleet.publish(template, "torn")
    found = fleet.start("small-0", template, [source, "tls://127.0.0.1:1", "--name=small-0"])
    try:
        if isinstance(fleet, FargateFleet):
            [task] = fleet.account.call("ecs", "describe_tasks", cluster=fleet.cluster, tasks=[found])["tasks"]
            assert task["capacityProviderName"] == "FARGATE_SPOT"
        else:
            [one] = fleet.account.call("ec2", "describe_instances", InstanceIds=[found])["Reservations"]
            assert one["Instances"][0]["InstanceLifecycle"] == "spot"
        assert until(lambda: fleet.look([found])[found].fate)
        fate = fleet.look([found])[found].fate
        assert fate is not None
        if kind == "fargate":
            assert fate.cause is Loss.CANNOT_START
            assert "what the run hands out cannot be read" in fate.detail
    finally:
        assert until(lambda: fleet.clear() == [])
    assert left_behind("5p07") == []


MANIFEST = """
version: 1
project: {{name: lab}}
targets:
  cloud:
    provider: aws
    cluster_type: {kind}
    region: eu-central-1
    image: lab/worker:1.0
    contact_address: 127.0.0.1
    execution_role_arn: arn:aws:iam::123456789012:role/execution
    instance_profile: worker
    code: upload
    adaptive: {{minimum: 0, maximum: 2}}
components:
  model: {{cpus: 1, memory: 1GiB}}
tasks:
  flows: {{component: model, run: "steps:flows", arguments: {{years: 3}}}}
  total: {{component: model, run: "steps:total", needs: [flows]}}
"""

STEPS = """
def flows(years):
    return list(range(years))

def total(flows):
    return sum(flows)
"""


@pytest.mark.parametrize("kind", ["fargate", pytest.param("ec2", marks=pytest.mark.long)])  # EC2 has TestRun, too
def test_a_session_adapts_from_no_workers_and_hands_its_code_out(
    kind: str, hands: Hands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("steps.py").write_text(STEPS)
    Path("scalable.yaml").write_text(MANIFEST.format(kind=kind))
    session = ScalableSession.from_yaml("scalable.yaml", target="cloud")
    cost = session.plan().cost_estimate
    assert cost is not None
    assert cost.total_hourly > 0
    with session as client:
        assert client.worker_count() == 0
        assert session.run_tasks()["total"] == 3
        assert 1 <= len(hands.running) <= 2
        cluster: Any = client.cluster
        run = cluster.launcher.fleet.run
        assert left_behind(run) != []
    assert left_behind(run) == []
