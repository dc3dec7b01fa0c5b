"""The calls to AWS: clients for one region, errors in sentences, the network of workers and the secrets they read.

boto3 is called directly, not through dask-cloudprovider: its process objects retry every refusal for a minute instead
of passing it on, ask about a task without pause, know no cause of a worker's end, start ``dask-worker``
instead of a worker of a kind, put the cluster's private keys into the user data of instances, open the scheduler's port
to the world, and search the whole account for clusters to delete whenever one starts.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from distributed.utils import get_ip

from scalable.cluster import cleanup
from scalable.cluster.clouds.fleet import RUN_TAG, CloudError, plain, unreachable
from scalable.errors import MissingExtraError
from scalable.manifest.targets import AwsTarget
from scalable.wording import install_hint

ANSWER_WITHIN_S = 20
PASSING = (
    "Throttl", "RequestLimitExceeded", "TooManyRequests", "ServiceUnavailable", "InternalError", "ServerException",
    "InsufficientInstanceCapacity", "InsufficientCapacity", "InsufficientFreeAddressesInSubnet", "LimitExceeded",
    "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "Unavailable", "RequestTimeout",
)  # fmt: skip
"""Beginnings and parts of error codes whose cause may pass: too many calls, no capacity, a quota that is used up."""
WITHIN = re.compile(r"\(ErrorCode: (\w+)\)")
"""In the message of a service, what another one answered that it asked: ECS asks EC2 about networks for every task."""
OLD = ("ExpiredToken", "ExpiredTokenException", "AuthFailure", "InvalidClientTokenId", "UnrecognizedClientException")
LOGIN = "run aws sso login or aws configure"


class Account:
    def __init__(self, region: str | None) -> None:
        try:
            boto3, config = import_module("boto3"), import_module("botocore.config")
        except ImportError as error:
            raise MissingExtraError(f"aws needs boto3 ({error}); {install_hint('aws')}") from None
        with explained_errors("sign-in"):
            self.session: Any = boto3.session.Session(region_name=region)
        self.config = config.Config(
            connect_timeout=ANSWER_WITHIN_S, read_timeout=ANSWER_WITHIN_S, retries={"mode": "standard"}
        )
        self.clients: dict[str, Any] = {}
        self.making = threading.Lock()

    def client(self, service: str) -> Any:
        with self.making:  # sessions are not safe to share between threads; clients are
            if service not in self.clients:
                with explained_errors(service):
                    self.clients[service] = self.session.client(service, config=self.config)
            return self.clients[service]

    def call(self, service: str, action: str, **wishes: Any) -> dict[str, Any]:
        with explained_errors(f"{service}:{action}"):
            answer: dict[str, Any] = getattr(self.client(service), action)(**wishes)
            return answer

    def pages(self, service: str, action: str, key: str, **wishes: Any) -> list[Any]:
        with explained_errors(f"{service}:{action}"):
            pages = self.client(service).get_paginator(action).paginate(**wishes)
            return [item for page in pages for item in page.get(key, [])]


class AwsFleet:
    """The base of both kinds of workers on AWS: the account, the network, and a security group of the run."""

    def __init__(self, target: AwsTarget, run: str) -> None:
        self.target = target
        self.run = run
        self.account = Account(target.region)
        self.tags = {**target.tags, RUN_TAG: run}
        self.network: Network | None = None
        self.groups: list[str] = list(target.security_groups or ())
        self.kinds: set[str] = set()

    def open(self) -> None:
        self.network = find_network(self.account, self.target)

    def make_group(self) -> None:
        """Make a security group of the run, unless the target names some."""
        assert self.network is not None
        if not self.groups:
            self.groups = [make_security_group(self.account, self.network, self.run, self.tags)]

    def clean_up_command(self) -> list[str]:
        region = self.account.session.region_name
        tags = (f"--tag={tag}" for tag in sorted(self.kinds))
        return cleanup.command("aws", f"--run={self.run}", f"--region={region}", *tags)


class AwsError(CloudError):
    """``code`` is AWS's own word for it."""

    def __init__(self, message: str, code: str = "", *, passing: bool = False) -> None:
        super().__init__(message, passing=passing)
        self.code = code


@contextmanager
def explained_errors(what: str) -> Iterator[None]:
    """Raise errors of boto3 as sentences."""
    errors = import_module("botocore.exceptions")
    try:
        yield
    except errors.NoRegionError:
        raise AwsError("no region is set; write region: … in the target") from None
    except errors.NoCredentialsError:
        text = "there are no credentials for AWS; run aws configure, or set AWS_PROFILE"
        raise AwsError(text) from None
    except (errors.PartialCredentialsError, errors.SSOError, errors.TokenRetrievalError) as error:
        raise AwsError(f"the credentials for AWS cannot be used: {error}; {LOGIN}") from None
    except errors.ProfileNotFound as error:
        raise AwsError(f"{error}; set AWS_PROFILE to one that aws configure list-profiles names, or unset it") from None
    except errors.ClientError as error:
        code, message = (error.response["Error"].get(name, "") for name in ("Code", "Message"))
        denied = "AccessDenied" in code or code == "UnauthorizedOperation"
        hint = f"; your credentials need the right to {what}" if denied else f"; {LOGIN}" if code in OLD else ""
        failing = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500
        passing = failing or any(map(may_pass, (code, *WITHIN.findall(message))))
        raise AwsError(f"AWS refused {what}: {message} ({code}){hint}", code, passing=passing) from None
    except errors.BotoCoreError as error:
        raise AwsError(f"AWS does not answer {what}: {error}", passing=True) from None


def may_pass(code: str) -> bool:
    return any(word in code for word in PASSING)


def tag_list(tags: dict[str, str], key: str = "Key", value: str = "Value") -> list[dict[str, str]]:
    return [{key: name, value: text} for name, text in tags.items()]


def read_secret(arn: str) -> str:
    """Read a secret on a worker's machine, with what the machine itself may do."""
    from scalable.cluster.clouds.start import HandoutError

    region = arn.split(":")[3]
    try:
        text: str = Account(region).call("secretsmanager", "get_secret_value", SecretId=arn)["SecretString"]
    except CloudError as error:
        raise HandoutError(f"{error}; may the instance profile read secrets named scalable-…?") from None
    return text


TRIES, PAUSE_S = 5, 1.0  # until a group that was just made is known


@dataclass(frozen=True, slots=True)
class Network:
    vpc: str
    ranges: tuple[str, ...]
    subnets: tuple[str, ...]
    public: bool
    """Its subnets give machines public addresses; without one, such a machine could pull no image."""


def find_network(account: Account, target: AwsTarget) -> Network:
    """Return what the manifest names, or the default VPC with its subnets; a driver out of their reach is refused."""
    chosen = {"VpcIds": [target.vpc]} if target.vpc else {"Filters": [{"Name": "is-default", "Values": ["true"]}]}
    if target.subnets:
        subnets = account.call("ec2", "describe_subnets", SubnetIds=target.subnets)["Subnets"]
        if not target.vpc:
            chosen = {"VpcIds": [subnets[0]["VpcId"]]}
    vpcs = account.call("ec2", "describe_vpcs", **chosen)["Vpcs"]
    if not vpcs:
        raise AwsError("the region has no default VPC; write vpc: vpc-… in the target")
    vpc = vpcs[0]
    if not target.subnets:
        subnets = account.pages(
            "ec2", "describe_subnets", "Subnets", Filters=[{"Name": "vpc-id", "Values": [vpc["VpcId"]]}]
        )
    if not subnets:
        raise AwsError(f"{vpc['VpcId']} has no subnets; write subnets: [subnet-…] in the target")
    if elsewhere := [subnet["SubnetId"] for subnet in subnets if subnet["VpcId"] != vpc["VpcId"]]:
        raise AwsError(f"{', '.join(elsewhere)} is not in {vpc['VpcId']}; write subnets of one VPC")
    ranges = [block["CidrBlock"] for block in vpc.get("CidrBlockAssociationSet", [])] or [vpc["CidrBlock"]]
    ids = tuple(sorted(subnet["SubnetId"] for subnet in subnets))
    network = Network(vpc["VpcId"], tuple(ranges), ids, all(subnet.get("MapPublicIpOnLaunch") for subnet in subnets))
    if target.contact_address is None:
        unreachable(get_ip(), network.ranges, network.vpc)
    return network


def make_security_group(account: Account, network: Network, run: str, tags: dict[str, str]) -> str:
    """Make a group in which workers and driver talk on any port, and nobody outside the VPC gets in."""
    name = f"scalable-{run}"
    try:
        group: str = account.call(
            "ec2", "create_security_group", GroupName=name, VpcId=network.vpc,
            Description="workers of one run and their driver",
            TagSpecifications=[{"ResourceType": "security-group", "Tags": tag_list(tags)}],
        )["GroupId"]  # fmt: skip
    except AwsError as error:
        if error.code != "InvalidGroup.Duplicate":  # an earlier try got this far
            raise
        mine = [{"Name": "group-name", "Values": [name]}, {"Name": "vpc-id", "Values": [network.vpc]}]
        groups = account.pages("ec2", "describe_security_groups", "SecurityGroups", Filters=mine)
        if not groups:
            raise AwsError(str(error), error.code, passing=True) from None  # not everyone at AWS knows it yet
        group = groups[0]["GroupId"]
    let_in(account, network, group)
    return group


def let_in(account: Account, network: Network, group: str) -> None:
    """Let the VPC in, once however often it is asked for; a new group is not known everywhere at AWS at once."""
    inside = {"IpProtocol": "tcp", "FromPort": 1024, "ToPort": 65535}
    ranges = [{"CidrIp": block, "Description": "this VPC"} for block in network.ranges]
    rules = [{**inside, "IpRanges": ranges}]
    for last in (*[False] * (TRIES - 1), True):
        try:
            account.call("ec2", "authorize_security_group_ingress", GroupId=group, IpPermissions=rules)
        except AwsError as error:
            if error.code == "InvalidPermission.Duplicate":
                return
            if last or error.code != "InvalidGroup.NotFound":
                raise
            time.sleep(PAUSE_S)
        else:
            return


def remove_security_groups(account: Account, run: str) -> list[str]:
    """Remove those of the run that can be removed now; returns the names of the others."""
    mine = [{"Name": f"tag:{RUN_TAG}", "Values": [run]}]
    left = []
    for group in account.pages("ec2", "describe_security_groups", "SecurityGroups", Filters=mine):
        try:
            account.call("ec2", "delete_security_group", GroupId=group["GroupId"])
        except AwsError as error:
            if error.code == "InvalidGroup.NotFound":
                continue
            left.append(f"security group {group['GroupId']}")
    return left


def secret_prefix(run: str) -> str:
    return f"scalable-{run}-"


def secret_name(run: str, tag: str) -> str:
    return secret_prefix(run) + plain(tag)


def keep_secret(account: Account, run: str, tag: str, text: str, tags: dict[str, str]) -> str:
    """Keep a text for a kind of worker and return its ARN; a kind that is defined anew gets a new value."""
    name = secret_name(run, tag)
    try:
        made = account.call(
            "secretsmanager", "create_secret", Name=name, SecretString=text, Tags=tag_list(tags),
            Description="certificates of one run of scalable",
        )  # fmt: skip
    except AwsError as error:
        if error.code != "ResourceExistsException":
            raise
        made = account.call("secretsmanager", "put_secret_value", SecretId=name, SecretString=text)
    arn: str = made["ARN"]
    return arn


def remove_secrets(account: Account, run: str, tags: Iterable[str]) -> list[str]:
    """Remove secrets that AWS lists and those of these kinds: a list may lack what was made minutes ago."""
    left = []
    mine = [{"Key": "name", "Values": [secret_prefix(run)]}]
    listed = account.pages("secretsmanager", "list_secrets", "SecretList", Filters=mine)
    for name in sorted({secret["Name"] for secret in listed} | {secret_name(run, tag) for tag in tags}):
        try:
            account.call("secretsmanager", "delete_secret", SecretId=name, ForceDeleteWithoutRecovery=True)
        except AwsError as error:
            if error.code != "ResourceNotFoundException":
                left.append(f"secret {name}")
    return left
