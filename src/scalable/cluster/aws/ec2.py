"""Workers as instances of EC2, one each: the instance runs the worker's container and switches itself off after it.

User data can be read by anyone who may describe instances, so it holds the name of a secret only, which the worker
reads with its instance profile.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from itertools import count
from typing import Any

from scalable.cluster.aws import reasons
from scalable.cluster.aws.account import (
    AwsError,
    AwsFleet,
    keep_secret,
    remove_secrets,
    remove_security_groups,
    tag_list,
)
from scalable.cluster.base import WorkerTemplate
from scalable.cluster.clouds import start
from scalable.cluster.clouds.fleet import (
    KNOWN_AFTER_S,
    NAME_TAG,
    RUN_TAG,
    Ending,
    Seen,
    boot_script,
    ending,
    plain,
    unfit,
)
from scalable.manifest.targets import AwsTarget
from scalable.planning.prices import machine_for

DOCKER_IMAGE = "/aws/service/ecs/optimized-ami/amazon-linux-2023/recommended/image_id"
"""The parameter under which AWS keeps the newest machine image with Docker."""
GONE = ("shutting-down", "terminated", "stopping", "stopped")
NO_ROOM = ("InsufficientInstanceCapacity", "InsufficientFreeAddressesInSubnet", "Unsupported")
"""Refusals that hold for one zone only: the next subnet is tried."""
ITS_OWN_END = "Client.InstanceInitiatedShutdown"
AT_ONCE = 200  # values that a filter may have
METADATA = "http://169.254.169.254/latest"

ECS_AGENT_OFF = "systemctl disable --now --no-block ecs 2>/dev/null"
REGISTRY_LOGIN = (
    "dnf install -y amazon-ecr-credential-helper",
    'mkdir -p ~root/.docker && echo \'{"credsStore": "ecr-login"}\' > ~root/.docker/config.json',
)
SPOT_NOTICE = (
    "(while sleep 5; do",
    f"  token=$(curl -sX PUT {METADATA}/api/token -H 'X-aws-ec2-metadata-token-ttl-seconds: 60')",
    f'  curl -sf -H "X-aws-ec2-metadata-token: $token" {METADATA}/meta-data/spot/instance-action || continue',
    "  docker stop scalable-worker; break",
    "done) >/dev/null 2>&1 &",
)
"""AWS announces two minutes ahead that it takes a spot instance back."""


class Ec2Fleet(AwsFleet):
    """The instances of one run."""

    noun = "instance"

    def __init__(self, target: AwsTarget, run: str, project: str) -> None:
        super().__init__(target, run)
        self.tags["Name"] = f"scalable-{plain(project)}"
        self.image = target.ami
        self.began: dict[str, float] = {}
        """When each instance was asked for."""
        self.turns = count()

    def check(self, template: WorkerTemplate) -> str:
        if template.gpus and not (self.target.ami and self.target.instance_type):
            return "workers with GPUs need an instance_type that has them and an ami with their drivers and Docker"
        return unfit(
            template.image or self.target.image, lambda: machine_for(self.target, template.cpus, template.memory)
        )

    def prepare(self) -> None:
        if self.image is None:
            self.image = self.account.call("ssm", "get_parameter", Name=DOCKER_IMAGE)["Parameter"]["Value"]
        self.make_group()

    def publish(self, template: WorkerTemplate, handout: str) -> str:
        return start.AWS + keep_secret(self.account, self.run, template.tag, handout, self.tags)

    def script(self, template: WorkerTemplate, arguments: Sequence[str]) -> str:
        image = template.image or self.target.image or ""
        private = re.match(r"\d+\.dkr\.ecr\.", image)
        return boot_script(
            image,
            [self.target.python, "-P", "-m", "scalable.cluster.clouds.start", *arguments],
            memory=template.memory,
            gpus=template.gpus,
            before=(ECS_AGENT_OFF, *(REGISTRY_LOGIN if private else ())),
            beside=SPOT_NOTICE if self.target.spot else (),
        )

    def request(self, name: str, template: WorkerTemplate, arguments: Sequence[str], subnet: str) -> dict[str, Any]:
        assert self.network is not None
        machine = machine_for(self.target, template.cpus, template.memory)
        tags = tag_list({**self.tags, NAME_TAG: name})
        profile = self.target.instance_profile or ""
        interface = {
            "DeviceIndex": 0,
            "SubnetId": subnet,
            "Groups": self.groups,
            "AssociatePublicIpAddress": self.network.public,
        }
        wishes: dict[str, Any] = {
            "ImageId": self.image,
            "InstanceType": machine.name,
            "MinCount": 1,
            "MaxCount": 1,
            "UserData": self.script(template, arguments),
            "InstanceInitiatedShutdownBehavior": "terminate",
            "NetworkInterfaces": [interface],
            "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
            "TagSpecifications": [{"ResourceType": what, "Tags": tags} for what in ("instance", "volume")],
            "ClientToken": f"{self.run}-{plain(name)}-{subnet}"[:64],
        }
        if profile:
            wishes["IamInstanceProfile"] = {"Arn" if profile.startswith("arn:") else "Name": profile}
        if self.target.spot:
            wishes["InstanceMarketOptions"] = {
                "MarketType": "spot",
                "SpotOptions": {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"},
            }
        return wishes

    def start(self, name: str, template: WorkerTemplate, arguments: Sequence[str]) -> str:
        """Start it in the next zone in turn; where that has no room, in the others."""
        assert self.network is not None
        subnets = self.network.subnets
        turn = next(self.turns) % len(subnets)
        refusal: AwsError | None = None
        for subnet in (*subnets[turn:], *subnets[:turn]):
            try:
                answer = self.account.call("ec2", "run_instances", **self.request(name, template, arguments, subnet))
                instance: str = answer["Instances"][0]["InstanceId"]
                self.began[instance] = time.monotonic()
                return instance
            except AwsError as error:
                if refusal is None or error.passing:  # a zone that may have room later is worth asking again
                    refusal = error
                if error.code not in NO_ROOM:
                    break
        assert refusal is not None
        raise refusal

    def look(self, ids: Sequence[str]) -> dict[str, Seen]:
        seen = {}
        for first in range(0, len(ids), AT_ONCE):
            wanted = [{"Name": "instance-id", "Values": list(ids[first : first + AT_ONCE])}]
            for reservation in self.account.pages("ec2", "describe_instances", "Reservations", Filters=wanted):
                for instance in reservation["Instances"]:
                    seen[instance["InstanceId"]] = self.seen(instance)
        return seen

    def seen(self, instance: dict[str, Any]) -> Seen:
        state = instance["State"]["Name"]
        if state == "pending":
            return Seen(waits="the instance boots")
        if state not in GONE:
            return Seen()
        end = self.ending(instance["InstanceId"])
        code = instance.get("StateReason", {}).get("Code")
        if end is None and state == "shutting-down" and code == ITS_OWN_END:
            return Seen()  # its console follows; what is said of it now would stand
        return Seen(fate=reasons.instance_fate(instance, end))

    def ending(self, instance: str) -> Ending | None:
        """Return what the instance wrote on its console; AWS keeps it for an hour."""
        try:
            answer = self.console(instance)
        except AwsError:
            return None
        return ending(str(answer.get("Output", "")))  # boto3 has decoded it

    def console(self, instance: str) -> dict[str, Any]:
        """Return the console as it is now; types of instances that cannot say that have an older copy."""
        try:
            return self.account.call("ec2", "get_console_output", InstanceId=instance, Latest=True)
        except AwsError as error:
            if error.code != "UnsupportedOperation":
                raise
            return self.account.call("ec2", "get_console_output", InstanceId=instance)

    def stop(self, ids: Sequence[str]) -> None:
        try:
            self.account.call("ec2", "terminate_instances", InstanceIds=list(ids))
        except AwsError as error:
            if error.code != "InvalidInstanceID.NotFound":
                raise
            if any(time.monotonic() - self.began.get(instance, -math.inf) < KNOWN_AFTER_S for instance in ids):
                raise AwsError(str(error), error.code, passing=True) from None  # not everyone at AWS knows it yet

    def clear(self) -> list[str]:
        alive = [
            {"Name": f"tag:{RUN_TAG}", "Values": [self.run]},
            {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]},
        ]
        reservations = self.account.pages("ec2", "describe_instances", "Reservations", Filters=alive)
        ids = [instance["InstanceId"] for reservation in reservations for instance in reservation["Instances"]]
        if ids:
            self.stop(ids)
            return [f"instance {instance}" for instance in ids]
        return remove_secrets(self.account, self.run, self.kinds) + remove_security_groups(self.account, self.run)
