"""A target on AWS: Fargate or EC2."""

from __future__ import annotations

from scalable.cluster.aws.ec2 import Ec2Fleet
from scalable.cluster.aws.fargate import FargateFleet
from scalable.cluster.base import DeploymentSpec
from scalable.cluster.clouds.fleet import Fleet
from scalable.cluster.clouds.provider import CloudProvider, target_findings
from scalable.findings import Finding
from scalable.manifest.targets import AwsTarget
from scalable.manifest.validation import ValidationReport

ALWAYS = {"region": "write e.g. region: eu-central-1"}
FARGATE = {
    "execution_role_arn": "write the ARN of a role that ECS may assume, with AmazonECSTaskExecutionRolePolicy and "
    "secretsmanager:GetSecretValue on scalable-*"
}
EC2 = {
    "instance_profile": "write the name of an instance profile that allows secretsmanager:GetSecretValue on scalable-*"
}


class AwsProvider(CloudProvider):
    name = "aws"

    def validate(self, spec: DeploymentSpec) -> ValidationReport:
        """Return what can be known without asking AWS; building a cluster looks at the network, too."""
        target = spec.target_as(AwsTarget)
        path = f"targets.{spec.target_name}"
        fargate = target.cluster_type == "fargate"
        report = target_findings(spec, target, ALWAYS | (FARGATE if fargate else EC2))
        findings = []
        if fargate and target.instance_type:
            text = "Fargate has no instance types"
            findings.append(
                Finding.warning("ignored", f"{path}.instance_type", text, "write cluster_type: ec2, or remove it")
            )
        for tag, part in spec.components.items():
            if fargate and part.gpus:
                remedy = "write cluster_type: ec2 with an instance_type and an ami that have GPUs"
                findings.append(Finding.error("no-gpus", f"components.{tag}.gpus", "Fargate has no GPUs", remedy))
        return report + ValidationReport.of(findings)

    def fleet(self, spec: DeploymentSpec, run: str) -> Fleet:
        kind = FargateFleet if spec.target_as(AwsTarget).cluster_type == "fargate" else Ec2Fleet
        return kind(spec.target_as(AwsTarget), run, spec.project)

    def place(self, spec: DeploymentSpec) -> dict[str, str | None]:
        return {"cluster_type": spec.target_as(AwsTarget).cluster_type, "region": spec.target_as(AwsTarget).region}
