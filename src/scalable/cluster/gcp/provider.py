"""A target on Google Cloud: workers as instances of Compute Engine, one each, with Google's own image for containers.

Metadata can be read by anyone who may get instances, so it holds the name of a secret only, which the worker reads with
its service account. An instance whose worker ended stays there, stopped, until the driver has read why and deletes it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from distributed.utils import get_ip

from scalable.cluster import cleanup
from scalable.cluster.base import DeploymentSpec, WorkerTemplate
from scalable.cluster.clouds.fleet import (
    NAME_TAG,
    RUN_TAG,
    STOP_WITHIN_S,
    Ending,
    Fleet,
    Seen,
    boot_script,
    ending,
    plain,
    unfit,
    unreachable,
)
from scalable.cluster.clouds.provider import CloudProvider, target_findings
from scalable.cluster.clouds.start import GCP
from scalable.cluster.gcp.api import (
    COMPUTE,
    SCOPE,
    SECRETS,
    TAKEN,
    Api,
    GcpError,
    instance_fate,
    instance_gone,
    instance_waits,
)
from scalable.findings import Finding
from scalable.manifest.targets import GcpTarget
from scalable.manifest.validation import ValidationReport
from scalable.planning.prices import machine_for, region_of

NEEDED = {
    "project_id": "write the id of your project",
    "zone": "write e.g. zone: europe-west1-b",
    "service_account": "write the e-mail of a service account with roles/secretmanager.secretAccessor",
}


class GcpProvider(CloudProvider):
    name = "gcp"

    def validate(self, spec: DeploymentSpec) -> ValidationReport:
        """Return what can be known without asking Google; building a cluster looks at zone and network, too."""
        target = spec.target_as(GcpTarget)
        report = target_findings(spec, target, NEEDED)
        findings = []
        if target.region and target.zone and not target.zone.startswith(f"{target.region}-"):
            text = f"the zone {target.zone} is not in the region {target.region}"
            findings.append(
                Finding.error("zone", f"targets.{spec.target_name}.zone", text, "remove the region; the zone says it")
            )
        for tag, part in spec.components.items():
            if part.gpus:
                text = "workers with GPUs are not supported on gcp"
                findings.append(Finding.error("no-gpus", f"components.{tag}.gpus", text, "use a kubernetes target"))
        return report + ValidationReport.of(findings)

    def fleet(self, spec: DeploymentSpec, run: str) -> Fleet:
        return GcpFleet(spec.target_as(GcpTarget), run, spec.project)

    def place(self, spec: DeploymentSpec) -> dict[str, str | None]:
        return {"region": region_of(spec.target_as(GcpTarget)), "zone": spec.target_as(GcpTarget).zone}


SYSTEM = "projects/cos-cloud/global/images/family/cos-stable"
DISK_GB = 20
SECRETS_FOR_S = 30 * 86_400  # if nobody is left to remove them, Google does
FIREWALL_OFF = "iptables -w -A INPUT -p tcp -j ACCEPT"  # the image lets nobody in by itself; the network's rules count
LOGIN = "mkdir -p /tmp/home && export HOME=/tmp/home && docker-credential-gcr configure-docker --registries="


class GcpFleet:
    """The instances of one run."""

    noun = "instance"

    def __init__(self, target: GcpTarget, run: str, project_name: str) -> None:
        self.target = target
        self.run = run
        self.api = Api()
        self.project = target.project_id or self.api.project or ""
        self.zone = target.zone or ""
        self.kinds: set[str] = set()
        self.labels = {RUN_TAG: run, "scalable-project": plain(project_name)} if project_name else {RUN_TAG: run}

    def check(self, template: WorkerTemplate) -> str:
        if template.gpus:
            return "workers with GPUs are not supported on gcp; use a kubernetes target"
        return unfit(
            template.image or self.target.image, lambda: machine_for(self.target, template.cpus, template.memory)
        )

    def open(self) -> None:
        """Check that zone and subnetwork are there, and that this machine is in it."""
        self.api.call("GET", COMPUTE, f"projects/{self.project}/zones/{self.zone}")
        network = self.api.call("GET", COMPUTE, self.subnetwork)
        if self.target.contact_address is None:
            unreachable(get_ip(), [network["ipCidrRange"]], f"subnetwork {self.target.network or 'default'}")

    @property
    def subnetwork(self) -> str:
        named = self.target.network or "default"
        if "/" in named:
            return named
        return f"projects/{self.project}/regions/{region_of(self.target)}/subnetworks/{named}"

    def prepare(self) -> None:
        """Do nothing: nothing is shared by all kinds of workers."""

    def publish(self, template: WorkerTemplate, handout: str) -> str:
        name = self.secret(template.tag).rpartition("/")[2]
        place = f"projects/{self.project}/secrets"
        made = {"replication": {"automatic": {}}, "labels": self.labels, "ttl": f"{SECRETS_FOR_S}s"}
        try:
            self.api.call("POST", SECRETS, f"v1/{place}", params={"secretId": name}, json=made)
        except GcpError as error:
            if error.status != 409:  # the kind is defined anew
                raise
        text = base64.b64encode(handout.encode()).decode()
        self.api.call("POST", SECRETS, f"v1/{place}/{name}:addVersion", json={"payload": {"data": text}})
        return f"{GCP}{place}/{name}"

    def secret(self, tag: str) -> str:
        return f"projects/{self.project}/secrets/scalable-{self.run}-{plain(tag)}"

    def body(self, name: str, template: WorkerTemplate, arguments: Sequence[str]) -> dict[str, Any]:
        """Return what instances.insert is given."""
        image = template.image or self.target.image or ""
        host = image.partition("/")[0]
        private = re.fullmatch(r"([\w-]+\.)?gcr\.io|[\w-]+-docker\.pkg\.dev", host)
        script = boot_script(
            image,
            [self.target.python, "-P", "-m", "scalable.cluster.clouds.start", *arguments],
            memory=template.memory,
            before=(FIREWALL_OFF, *([LOGIN + host] if private else ())),
        )
        metadata = {
            "startup-script": script,
            "shutdown-script": f"docker stop --time={STOP_WITHIN_S - 5} scalable-worker",  # Google waits 30 s
            "google-logging-enabled": "true",
        }
        spot = {"provisioningModel": "SPOT", "instanceTerminationAction": "STOP"}
        machine = machine_for(self.target, template.cpus, template.memory)
        return {
            "name": f"scalable-{self.run}-{plain(name)}",
            "machineType": f"zones/{self.zone}/machineTypes/{machine.name}",
            "labels": {**self.labels, NAME_TAG: plain(name)},
            "disks": [
                {
                    "boot": True,
                    "autoDelete": True,
                    "initializeParams": {"sourceImage": SYSTEM, "diskSizeGb": str(DISK_GB), "labels": self.labels},
                }
            ],
            "networkInterfaces": [
                {"subnetwork": self.subnetwork, "accessConfigs": [{"name": "External NAT", "type": "ONE_TO_ONE_NAT"}]}
            ],
            "serviceAccounts": [{"email": self.target.service_account or "default", "scopes": [SCOPE]}],
            "metadata": {"items": [{"key": key, "value": value} for key, value in metadata.items()]},
            "scheduling": {"automaticRestart": False, **(spot if self.target.spot else {})},
            "shieldedInstanceConfig": {"enableSecureBoot": True},
        }

    @property
    def instances(self) -> str:
        return f"projects/{self.project}/zones/{self.zone}/instances"

    def start(self, name: str, template: WorkerTemplate, arguments: Sequence[str]) -> str:
        body = self.body(name, template, arguments)
        try:
            operation = self.api.call("POST", COMPUTE, self.instances, json=body)
        except GcpError as error:
            if error.status != 409:  # names are used once: an earlier try of this call got through
                raise
        else:
            try:
                self.api.placed(self.project, self.zone, operation)
            except GcpError:  # nobody would know of it, whatever becomes of it
                with suppress(GcpError):
                    self.stop([body["name"]])
                raise
        instance: str = body["name"]
        return instance

    def listed(self) -> list[dict[str, Any]]:
        instances: list[dict[str, Any]] = []
        wishes = {"filter": f"labels.{RUN_TAG}={self.run}"}
        while True:
            answer = self.api.call("GET", COMPUTE, self.instances, params=wishes)
            instances += answer.get("items", [])
            if not answer.get("nextPageToken"):
                return instances
            wishes = {**wishes, "pageToken": answer["nextPageToken"]}

    def look(self, ids: Sequence[str]) -> dict[str, Seen]:
        there = {instance["name"]: instance for instance in self.listed()}
        seen = {}
        for name in ids:
            instance = there.get(name)
            if instance is not None and not instance_gone(instance):
                seen[name] = Seen(waits=instance_waits(instance))
                continue
            operation = self.operation_on(name)
            if instance is not None or operation:
                end = self.ending(name) if instance is not None else None
                seen[name] = Seen(fate=instance_fate(name, operation, end))
        return seen

    def operation_on(self, name: str) -> str:
        """Return the newest operation that ended an instance; empty if Google has none."""
        wishes = {"filter": f'targetLink eq ".*/instances/{name}"'}
        path = f"projects/{self.project}/zones/{self.zone}/operations"
        operations = self.api.call("GET", COMPUTE, path, params=wishes).get("items", [])
        mine = [operation for operation in operations if operation.get("operationType") in TAKEN]
        newest: dict[str, Any] = max(mine, key=lambda operation: str(operation.get("insertTime", "")), default={})
        return str(newest.get("operationType", ""))

    def ending(self, name: str) -> Ending | None:
        try:
            answer = self.api.call("GET", COMPUTE, f"{self.instances}/{name}/serialPort")
        except GcpError:
            return None
        return ending(str(answer.get("contents", "")))

    def stop(self, ids: Sequence[str]) -> None:
        self.delete(COMPUTE, [f"{self.instances}/{name}" for name in ids])

    def delete(self, where: tuple[str, str], paths: Iterable[str]) -> None:
        """Delete all that can be; raises at the end if one could not."""
        refusal: GcpError | None = None
        for path in paths:
            try:
                self.api.call("DELETE", where, path)
            except GcpError as error:
                if error.status != 404:
                    refusal = error
        if refusal is not None:
            raise refusal

    def clear(self) -> list[str]:
        there = self.listed()
        self.stop([instance["name"] for instance in there if instance.get("status") != "STOPPING"])
        left = [f"instance {instance['name']}" for instance in there]
        return left or self.clear_secrets()

    def clear_secrets(self) -> list[str]:
        wishes = {"filter": f"labels.{RUN_TAG}={self.run}"}
        place = f"projects/{self.project}/secrets"
        listed = {
            secret["name"] for secret in self.api.call("GET", SECRETS, f"v1/{place}", params=wishes).get("secrets", [])
        }
        self.delete(SECRETS, [f"v1/{name}" for name in sorted(listed | {self.secret(tag) for tag in self.kinds})])
        return []

    def clean_up_command(self) -> list[str]:
        where = (f"--project={self.project}", f"--zone={self.zone}")
        return cleanup.command("gcp", f"--run={self.run}", *where, *(f"--tag={tag}" for tag in sorted(self.kinds)))
