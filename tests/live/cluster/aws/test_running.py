"""Work on Fargate and on EC2, end to end against moto's server: scaled, adapted, lost, closed with nothing left."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scalable.cluster import cleanup
from scalable.cluster.aws.account import Account, AwsError
from scalable.cluster.aws.ec2 import Ec2Fleet
from scalable.cluster.aws.fargate import FargateFleet
from scalable.cluster.aws.provider import AwsProvider
from scalable.cluster.base import ClusterHandle, DeploymentSpec, LaunchRefused, WorkerTemplate
from scalable.engine.events import Loss
from scalable.errors import UsageError
from scalable.manifest.targets import AwsTarget
from scalable.planning.resources import ScalePlan
from scalable.session.session import ScalableSession
from tests.helpers.cluster.aws.amazon import REGION, Hands
from tests.helpers.cluster.aws.running import KINDS, a_spec, kind
from tests.helpers.cluster.scenes import Driver, all_ended, expect_no_secrets, lose_a_worker, variable
from tests.helpers.waiting import CLUSTER_S, LONG_S, until

__all__ = ["kind"]


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


@pytest.mark.long  # what clears away looks once more after five seconds
@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_that_is_killed_leaves_nothing(kind: str, hands: Hands, tmp_path: Path) -> None:
    """A driver of its own starts a worker and is killed; the process it left behind clears everything away."""
    driver = Driver(tmp_path, DRIVER.format(kind=kind, folder=str(tmp_path / "run")))
    assert left_behind(driver.run) != []
    reapers = driver.kill()
    assert until(lambda: left_behind(driver.run) == []), left_behind(driver.run)
    assert until(lambda: all_ended(hands.running.values()))
    assert until(lambda: not any(one.is_running() for one in reapers), CLUSTER_S)


DRIVER = """
import sys, time
from pathlib import Path
from scalable.cluster.aws.provider import AwsProvider
from scalable.session.session import ScalableSession
from scalable.planning.resources import ScalePlan
from tests.helpers.cluster.aws.running import a_spec

if __name__ == "__main__":
    handle = AwsProvider().build_cluster(a_spec(Path({folder!r}), {kind!r}))
    AwsProvider().scale(handle, ScalePlan({{"small": 1}}))
    print(handle.metadata["run"], flush=True)
    time.sleep(600)
"""


def an_ec2_fleet(folder: Path, run: str) -> Ec2Fleet:
    target = a_spec(folder, "ec2").target
    assert isinstance(target, AwsTarget)
    return Ec2Fleet(target, run, "lab")


def answering(fleet: Any, monkeypatch: pytest.MonkeyPatch, action: str, *answers: Any) -> None:
    """One action is answered so, one after the other, and by AWS again afterwards; None is AWS's own answer."""
    real, left = fleet.account.call, list(answers)

    def call(service: str, asked: str, **wishes: Any) -> Any:
        answer = left.pop(0) if asked == action and left else None
        if isinstance(answer, Exception):
            raise answer
        return real(service, asked, **wishes) if answer is None else answer

    monkeypatch.setattr(fleet.account, "call", call)


def test_secrets_go_by_their_names_though_aws_does_not_list_them_yet(
    hands: Hands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = an_ec2_fleet(tmp_path, "0000feed")
    fleet.publish(WorkerTemplate("small"), "text")
    pages = Account.pages
    monkeypatch.setattr(
        Account, "pages", lambda *given, **wishes: [] if given[2] == "list_secrets" else pages(*given, **wishes)
    )
    fleet.kinds.add("small")
    line = fleet.clean_up_command()
    assert cleanup.main(line[line.index("aws") :]) == 0
    assert left_behind("0000feed") == []


def test_a_security_group_that_was_half_made_is_finished(
    hands: Hands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = an_ec2_fleet(tmp_path, "0000aaaa")
    fleet.open()
    away = AwsError("away", passing=True)
    monkeypatch.setattr("scalable.cluster.aws.account.PAUSE_S", 0.0)
    answering(fleet, monkeypatch, "authorize_security_group_ingress", away, AwsError("", "InvalidGroup.NotFound"))
    with pytest.raises(AwsError, match="away"):
        fleet.prepare()
    fleet.prepare()
    [group] = fleet.account.call("ec2", "describe_security_groups", GroupIds=fleet.groups)["SecurityGroups"]
    assert len(group["IpPermissions"]) == 1
    fleet.groups = []
    fleet.prepare()
    assert fleet.groups == [group["GroupId"]]
    assert fleet.clear() == []


def test_a_zone_that_may_have_room_later_counts_more_than_one_that_never_has(
    hands: Hands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = an_ec2_fleet(tmp_path, "0000bbbb")
    fleet.open()
    assert fleet.network is not None
    full = AwsError("full", "InsufficientInstanceCapacity", passing=True)
    never = [AwsError("never", "Unsupported")] * len(fleet.network.subnets)
    answering(fleet, monkeypatch, "run_instances", full, *never)
    with pytest.raises(AwsError, match="full") as refused:
        fleet.start("small-0", WorkerTemplate("small"), [])
    assert refused.value.passing


def test_any_number_of_instances_is_asked_about(hands: Hands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def pages(*given: Any, **wishes: Any) -> list[Any]:
        asked.append(len(wishes["Filters"][0]["Values"]))
        return []

    monkeypatch.setattr(Account, "pages", pages)
    assert an_ec2_fleet(tmp_path, "0000cccc").look([f"i-{number}" for number in range(450)]) == {}
    assert asked == [200, 200, 50]


def test_an_instance_that_aws_does_not_know_yet_is_not_taken_for_ended(hands: Hands, tmp_path: Path) -> None:
    fleet = an_ec2_fleet(tmp_path, "0000dddd")
    unknown = "i-00000000000000000"
    fleet.began[unknown] = time.monotonic()
    with pytest.raises(AwsError) as refused:
        fleet.stop([unknown])
    assert refused.value.passing
    fleet.began[unknown] -= 61
    fleet.stop([unknown])


def test_the_end_of_an_instance_waits_for_its_console(
    hands: Hands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = an_ec2_fleet(tmp_path, "0000eeee")
    words = {"Output": "scalable-worker-ended code=137 oom=true"}
    unsupported = AwsError("", "UnsupportedOperation")
    answering(fleet, monkeypatch, "get_console_output", {"Output": ""}, unsupported, words, {"Output": ""})
    going = {
        "InstanceId": "i-1",
        "State": {"Name": "shutting-down"},
        "StateReason": {"Code": "Client.InstanceInitiatedShutdown"},
    }
    assert fleet.seen(going).fate is None
    fate = fleet.seen(going).fate
    assert fate is not None and fate.cause is Loss.OUT_OF_MEMORY
    assert fleet.seen({**going, "State": {"Name": "terminated"}}).fate is not None


def test_a_task_that_cannot_be_stopped_keeps_no_other_from_it(
    hands: Hands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = a_spec(tmp_path, "fargate").target
    assert isinstance(target, AwsTarget)
    fleet = FargateFleet(target, "0000ffff", "lab")
    stopped: list[str] = []

    def call(service: str, action: str, *, task: str, **wishes: Any) -> None:
        if task == "bad":
            raise AwsError("no right to that one", "AccessDeniedException")
        stopped.append(task)

    monkeypatch.setattr(fleet.account, "call", call)
    with pytest.raises(AwsError, match="no right"):
        fleet.stop(["bad", "good"])
    assert stopped == ["good"]


def test_a_profile_that_does_not_exist_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UsageError, match=r"nobody.* set AWS_PROFILE"):
        AwsProvider().build_cluster(a_spec(tmp_path, "fargate"))


def test_the_clean_up_command_succeeds_where_nothing_is_left(hands: Hands) -> None:
    assert cleanup.main(["aws", "--run=0000beef", f"--region={REGION}"]) == 0


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


def test_no_credentials_are_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(AwsError, match="no credentials for AWS; run aws configure"):
        Account(REGION).call("ecs", "list_clusters")


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
