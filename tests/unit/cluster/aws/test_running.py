"""Work on Fargate and on EC2, end to end against moto's server: scaled, adapted, lost, closed with nothing left."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from scalable.cluster.aws import cleanup
from scalable.cluster.aws.account import Account, AwsError
from scalable.cluster.aws.ec2 import Ec2Fleet
from scalable.cluster.aws.fargate import FargateFleet
from scalable.cluster.aws.provider import AwsProvider
from scalable.cluster.base import WorkerTemplate
from scalable.engine.events import Loss
from scalable.errors import UsageError
from scalable.manifest.targets import AwsTarget
from tests.helpers.cluster.aws.amazon import REGION, Hands
from tests.helpers.cluster.aws.running import KINDS, a_spec, kind, left_behind
from tests.helpers.cluster.scenes import Driver, all_ended
from tests.helpers.waiting import until

__all__ = ["kind"]


@pytest.mark.long  # what clears away looks once more after five seconds
@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_that_is_killed_leaves_nothing(kind: str, hands: Hands, tmp_path: Path) -> None:
    """A driver of its own starts a worker and is killed; the process it left behind clears everything away."""
    driver = Driver(tmp_path, DRIVER.format(kind=kind, folder=str(tmp_path / "run")))
    assert left_behind(driver.run) != []
    reapers = driver.kill()
    assert until(lambda: left_behind(driver.run) == []), left_behind(driver.run)
    assert until(lambda: all_ended(hands.running.values()))
    assert until(lambda: not any(one.is_running() for one in reapers))


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
    assert cleanup.main(line[line.index("--run=0000feed") :]) == 0
    assert left_behind("0000feed") == []


def test_a_security_group_that_was_half_made_is_finished(
    hands: Hands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = an_ec2_fleet(tmp_path, "0000aaaa")
    fleet.open()
    away = AwsError("away", passing=True)
    monkeypatch.setattr("scalable.cluster.aws.network.PAUSE_S", 0.0)
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
    assert cleanup.main(["--run=0000beef", f"--region={REGION}"]) == 0


def test_no_credentials_are_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(AwsError, match="no credentials for AWS; run aws configure"):
        Account(REGION).call("ecs", "list_clusters")
