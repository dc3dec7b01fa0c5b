"""Where workers are put: the VPC, its subnets, and a security group of the run if the manifest names none."""

from __future__ import annotations

import time
from dataclasses import dataclass

from distributed.utils import get_ip

from scalable.cluster.aws.account import Account, AwsError, tag_list
from scalable.cluster.clouds.fleet import RUN_TAG, unreachable
from scalable.manifest.targets import AwsTarget

TRIES, PAUSE_S = 5, 1.0  # until a group that was just made is known


@dataclass(frozen=True, slots=True)
class Network:
    vpc: str
    ranges: tuple[str, ...]
    subnets: tuple[str, ...]
    public: bool
    """Its subnets give machines public addresses; without one, such a machine could pull no image."""


def find_network(account: Account, target: AwsTarget) -> Network:
    """What the manifest names, or the default VPC with all its subnets; a driver out of their reach is refused."""
    chosen = {"VpcIds": [target.vpc]} if target.vpc else {"Filters": [{"Name": "is-default", "Values": ["true"]}]}
    if target.subnets:
        found = account.call("ec2", "describe_subnets", SubnetIds=target.subnets)["Subnets"]
        if not target.vpc:
            chosen = {"VpcIds": [found[0]["VpcId"]]}
    vpcs = account.call("ec2", "describe_vpcs", **chosen)["Vpcs"]
    if not vpcs:
        raise AwsError("the region has no default VPC; write vpc: vpc-… in the target")
    vpc = vpcs[0]
    if not target.subnets:
        found = account.pages(
            "ec2", "describe_subnets", "Subnets", Filters=[{"Name": "vpc-id", "Values": [vpc["VpcId"]]}]
        )
    if not found:
        raise AwsError(f"{vpc['VpcId']} has no subnets; write subnets: [subnet-…] in the target")
    if elsewhere := [one["SubnetId"] for one in found if one["VpcId"] != vpc["VpcId"]]:
        raise AwsError(f"{', '.join(elsewhere)} is not in {vpc['VpcId']}; write subnets of one VPC")
    ranges = [one["CidrBlock"] for one in vpc.get("CidrBlockAssociationSet", [])] or [vpc["CidrBlock"]]
    ids = tuple(sorted(one["SubnetId"] for one in found))
    network = Network(vpc["VpcId"], tuple(ranges), ids, all(one.get("MapPublicIpOnLaunch") for one in found))
    if target.contact_address is None:
        unreachable(get_ip(), network.ranges, network.vpc)
    return network


def make_security_group(account: Account, network: Network, run: str, tags: dict[str, str]) -> str:
    """Workers and the driver talk to each other on any port; nobody outside the VPC gets in."""
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
        found = account.pages("ec2", "describe_security_groups", "SecurityGroups", Filters=mine)
        if not found:
            raise AwsError(str(error), error.code, passing=True) from None  # not everyone at AWS knows it yet
        group = found[0]["GroupId"]
    let_in(account, network, group)
    return group


def let_in(account: Account, network: Network, group: str) -> None:
    """Once, however often it is asked for; a group that was just made is not known everywhere at AWS."""
    inside = {"IpProtocol": "tcp", "FromPort": 1024, "ToPort": 65535}
    ranges = [{"CidrIp": one, "Description": "this VPC"} for one in network.ranges]
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
    """Those of the run that can be removed now; names those that cannot."""
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
