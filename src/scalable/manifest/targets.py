"""Where a manifest may run: one model per provider. Options a provider does not know are kept and warned about."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import ConfigDict, field_validator, model_validator

from scalable.errors import QuantityError
from scalable.manifest.fields import Count, CountOrNone, Flag, Section, Text, Texts, Variant
from scalable.quantities import Cpu, Memory, Price
from scalable.wording import shown

BUILT_IN = ("local", "slurm", "kubernetes", "aws", "gcp")


class Adaptive(Section):
    """Between how many workers a running session scales by itself."""

    minimum: CountOrNone = 0
    maximum: Count

    @model_validator(mode="after")
    def ordered(self) -> Adaptive:
        if self.minimum > self.maximum:
            raise QuantityError(f"minimum {self.minimum} is above maximum {self.maximum}", "swap them")
        return self


class Target(Section):
    """What every target has. The base itself serves providers that others register."""

    model_config = ConfigDict(extra="allow")

    provider: Text
    overlay: Text | None = None
    adaptive: Adaptive | None = None


class LocalTarget(Target):
    provider: Literal["local"]
    max_workers: Count = 1
    threads_per_worker: Count = 1
    processes: Flag = False
    containers: Literal["none", "docker"] = "none"
    dashboard_address: Text | None = None
    cpu_price: Price | None = None
    """What an hour of a CPU costs, if it shall be counted."""


class SlurmTarget(Target):
    provider: Literal["slurm"]
    queue: Text | None = None
    account: Text | None = None
    walltime: Text | None = None
    interface: Text | None = None
    logs_location: Text | None = None
    container_runtime: Literal["apptainer", "none"] = "apptainer"
    max_workers: Count | None = None
    cpu_price: Price | None = None
    """What an hour of a CPU is charged."""
    sbatch: Texts | None = None
    """Further options of sbatch that a site wants, e.g. --qos=high."""
    port: Count | None = None
    """Of the scheduler, where a firewall lets only some through; any free one if nothing is said."""
    contact_address: Text | None = None
    """How workers reach the scheduler if that differs from what this machine calls itself."""
    python: Text | None = None
    """The Python of workers; the one that runs this, or python3 inside an image, if nothing is said."""
    code: Literal["shared", "upload", "image"] = "shared"
    """How the user's code reaches workers: by a folder both see, by an upload, or it is in the image already."""
    comm_port: int | None = None
    """Accepted from older manifests and ignored."""

    @field_validator("walltime", mode="before")
    @classmethod
    def clock(cls, value: Any) -> Any:
        if value is not None and not (
            isinstance(value, str) and re.fullmatch(r"(\d+-)?\d{1,3}:[0-5]\d:[0-5]\d", value)
        ):
            raise QuantityError(f"{shown(value)} is not a walltime", 'write HH:MM:SS, e.g. "04:00:00"')
        return value


class CloudTarget(Target):
    region: Text | None = None
    image: Text | None = None

    @field_validator("image")
    @classmethod
    def pinned(cls, image: str | None) -> str | None:
        if image is not None and image.endswith(":latest"):
            raise QuantityError(f"the image {image} changes under you", "name a version or a digest")
        return image


class AwsTarget(CloudTarget):
    provider: Literal["aws"]
    cluster_type: Literal["fargate", "ec2"] = "fargate"
    instance_type: Text | None = None
    worker_cpu: Count | None = None
    worker_mem: Count | None = None
    vpc: Text | None = None
    subnets: Texts | None = None
    security_groups: Texts | None = None
    execution_role_arn: Text | None = None
    task_role_arn: Text | None = None
    spot: Flag = False
    environment: dict[str, Variant] = {}
    tags: dict[str, Text] = {}


class GcpTarget(CloudTarget):
    provider: Literal["gcp"]
    project_id: Text | None = None
    zone: Text | None = None
    machine_type: Text | None = None
    network: Text | None = None
    service_account: Text | None = None


class KubernetesTarget(CloudTarget):
    provider: Literal["kubernetes"]
    namespace: Text = "default"
    worker_service_account: Text | None = None
    resources: dict[str, Any] = {}
    env: dict[str, Any] = {}
    tolerations: list[dict[str, Any]] = []
    node_selector: dict[str, Text] = {}
    scheduler_cpu: Cpu | None = None
    scheduler_memory: Memory | None = None


def provider_of(value: Any) -> str:
    """Which model reads a target; a provider registered by others is read by the base."""
    provider = value.get("provider") if isinstance(value, dict) else getattr(value, "provider", None)
    return provider if provider in BUILT_IN else "other"
