"""The objects of a run on Kubernetes as the API takes them: a parent that owns all, a Secret, the relay and workers.

Pure: what is put in is all that counts. Pods ask for what the plan placed them with, run without any rights, write only
to folders that go with them, and end for good when their process ends; the engine decides what comes in their place.
``KubernetesSite`` holds what all objects of a run have in common.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

from scalable.cluster.base import DeploymentSpec, WorkerTemplate
from scalable.cluster.kubernetes import relay
from scalable.errors import UsageError
from scalable.manifest.targets import KubernetesTarget, SecretKey, unpinned
from scalable.planning.places import WorkerPlace
from scalable.planning.resources import Size
from scalable.quantities import Cpu, Duration, Memory
from scalable.walltime import CLOSING_S
from scalable.worker.options import GRACE_S

HANDOUT, SCRATCH = "/scalable/handout", "/scratch"
"""Where a pod finds what the driver hands out, and where it may write."""
OWN = {"HOME": SCRATCH, "PYTHONUNBUFFERED": "1"}
"""Variables of every container: what it prints is read while it runs, and it may be killed at any time."""
USER = 10001  # any that is not root and no account of a node
KIND_OF_NODE = ("kubernetes.io/arch", "kubernetes.io/os")  # what an image runs on, not whose nodes they are
NEVER_SO_MANY = 1_000_000  # nodes
MOST_IN_SECRET = 1_000_000  # bytes; the API takes 1 MiB with everything around them
STAYS = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
"""No autoscaler takes a node from under running work; the engine sends workers away when there is none."""

Object = dict[str, Any]


def parent(site: KubernetesSite) -> Object:
    """Build the object that owns all others; it ends with the driver's pod where that is in the cluster."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(site, site.name, site.labels, site.driver),
        "data": {"run": site.run},
    }


def handout_secret(site: KubernetesSite, files: Mapping[str, bytes]) -> Object:
    """Return what the driver hands to workers: this run's certificates, and the project where code is uploaded."""
    total = sum(map(len, files.values()))
    if total > MOST_IN_SECRET:
        largest = max(files, key=lambda name: len(files[name]))
        raise UsageError(
            f"{total:,} bytes are too many to hand to pods ({largest} has {len(files[largest]):,}; "
            f"at most {MOST_IN_SECRET:,}); put the code into the image and write code: image"
        )
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(site, site.name, site.labels, site.owner),
        "type": "Opaque",
        "immutable": True,
        "data": {name: base64.b64encode(content).decode() for name, content in files.items()},
    }


def worker_pod(site: KubernetesSite, template: WorkerTemplate, name: str, arguments: Sequence[str]) -> Object:
    """Build the pod of a worker. ``arguments`` follow ``python -m scalable.worker``."""
    place = site.places.get(template.tag) or stated(template)
    marks = {**site.labels, "scalable/tag": label(template.tag), "scalable/worker": label(name)}
    spec = pod_spec(
        site,
        "worker",
        template.image or site.image,
        [site.python, "-P", "-m", "scalable.worker", *arguments],
        env={**template.environment, **site.env, **template.env},
        requests={**site.requests, **amounts(replace(place.request, gpus=place.limit.gpus))},  # GPUs are not shared
        limits={**site.limits, **amounts(place.limit)},
    )
    spec["terminationGracePeriodSeconds"] = ceil(site.grace) + CLOSING_S
    if site.walltime_s is not None:
        spec["activeDeadlineSeconds"] = max(1, ceil(site.walltime_s))
    if site.service_account:
        spec["serviceAccountName"] = site.service_account
    if selector := {**site.node_selector, **place.selector}:
        spec["nodeSelector"] = selector
    if tolerations := [dict(toleration) for toleration in (*site.tolerations, *place.tolerations)]:
        spec["tolerations"] = tolerations
    if apart := spread(place, {mark: marks[mark] for mark in ("scalable/run", "scalable/tag")}):
        spec["topologySpreadConstraints"] = [apart]
    return pod(site, name, marks, spec)


def relay_pod(site: KubernetesSite) -> Object:
    """Build the pod through which a driver outside reaches workers, away from nodes that come and go."""
    sizes = amounts(site.relay)
    command = [site.python, "-P", "-m", "scalable.cluster.kubernetes.relay", *relay.arguments(HANDOUT)]
    spec = pod_spec(site, "relay", site.image, command, {}, sizes, sizes)
    spec["containers"][0]["ports"] = [{"name": "workers", "containerPort": relay.WORKER_PORT, "protocol": "TCP"}]
    spec["terminationGracePeriodSeconds"] = 1  # nothing is in it that could be saved
    [handout] = [volume["secret"] for volume in spec["volumes"] if volume["name"] == "handout"]
    # not the run's keys: what it passes on it cannot read
    handout["items"] = [{"key": relay.TOKEN_FILE, "path": relay.TOKEN_FILE}]
    return pod(site, "relay", {**site.labels, "scalable/part": "relay"}, spec | beside_work(site))


def beside_work(site: KubernetesSite) -> Object:
    """Return where a pod goes that must outlast workers: rather to nodes that do not come and go with these.

    Where there are no others it is taken by theirs, so it puts up with what workers put up with.
    """
    labels: dict[str, set[str]] = {}
    tolerations: list[Object] = []
    for selector in (site.node_selector, *(place.selector for place in site.places.values())):
        for key, value in selector.items():
            labels.setdefault(key, set()).add(value)
    for toleration in (*site.tolerations, *(each for place in site.places.values() for each in place.tolerations)):
        tolerations += [dict(toleration)] if dict(toleration) not in tolerations else []
    spec: Object = {"tolerations": tolerations} if tolerations else {}
    if kind := {key: value for key, value in site.node_selector.items() if key in KIND_OF_NODE}:
        spec["nodeSelector"] = kind
    others = [
        {
            "weight": 100,
            "preference": {"matchExpressions": [{"key": key, "operator": "NotIn", "values": sorted(values)}]},
        }
        for key, values in sorted(labels.items())
        if key not in KIND_OF_NODE
    ]
    if others:
        spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": others}}
    return spec


def spread(place: WorkerPlace, of: Mapping[str, str]) -> Object | None:
    """Return what makes the planned number of nodes real where requests alone do not.

    Over at least so many nodes: as evenly as can be, and while there are fewer nodes, none takes a second worker. At
    most so many on a node: with more domains demanded than there can be, the emptiest counts as empty, and the skew is
    a limit. The API allows only one such rule for a topology, and a limit for each node is the stricter promise.
    """
    rule = {
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": dict(of)},
        "nodeTaintsPolicy": "Honor",  # a node that is lost or not ours is none to be even with
    }
    if place.at_most is not None:
        return {"maxSkew": place.at_most, "minDomains": NEVER_SO_MANY, **rule}
    return {"maxSkew": 1, "minDomains": place.nodes, **rule} if place.nodes > 1 else None


def pod_spec(
    site: KubernetesSite,
    role: str,
    image: str | None,
    command: Sequence[str],
    env: Mapping[str, str | SecretKey],
    requests: Mapping[str, str],
    limits: Mapping[str, str],
) -> Object:
    """Build a container without rights: Kubernetes' restricted standard, and a read-only root besides.

    Where nobody states how much of a node's disk it may fill, a default does: a full disk evicts the neighbours, too.
    """
    requests, limits = with_disk(requests, limits)
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": role,
                "image": image,
                "command": list(command),
                "env": [variable(name, value) for name, value in {**OWN, **env}.items()],
                "resources": {"requests": dict(requests), "limits": dict(limits)},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "terminationMessagePolicy": "FallbackToLogsOnError",  # its last words tell why it could not start
                "volumeMounts": [
                    {"name": "tmp", "mountPath": "/tmp"},
                    {"name": "scratch", "mountPath": SCRATCH},
                    {"name": "handout", "mountPath": HANDOUT, "readOnly": True},
                ],
            }
        ],
        "volumes": [
            *({"name": name, "emptyDir": emptied(limits)} for name in ("tmp", "scratch")),
            {"name": "handout", "secret": {"secretName": site.name, "defaultMode": 0o440}},
        ],
    }


def with_disk(requests: Mapping[str, str], limits: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what a pod asks for and may have, with a part of its node's disk if none is stated."""
    if DISK in requests or DISK in limits:
        return {**requests}, {**limits}
    return {**requests, DISK: DISK_REQUEST}, {**limits, DISK: DISK_LIMIT}


def emptied(limits: Mapping[str, str]) -> Object:
    """Return a folder of a pod that is empty at first and holds no more than the pod may."""
    return {"sizeLimit": limits[DISK]} if DISK in limits else {}


def pod(site: KubernetesSite, name: str, labels: Mapping[str, str], spec: Object) -> Object:
    about = metadata(site, pod_name(site, name), labels, site.owner)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**about, "annotations": dict(STAYS)}, "spec": spec}


def metadata(site: KubernetesSite, name: str, labels: Mapping[str, str], owner: Owner | None) -> Object:
    about: Object = {"name": name, "namespace": site.namespace, "labels": dict(labels)}
    return {**about, "ownerReferences": [owner.reference]} if owner else about


def pod_name(site: KubernetesSite, worker: str) -> str:
    """Return what the pod of a worker is called; different workers have different names."""
    return shortened(f"{site.name}-{re.sub(r'[^a-z0-9-]+', '-', worker.lower())}", worker)


def stated(template: WorkerTemplate) -> WorkerPlace:
    """Place a kind of worker that no manifest places by what it says itself."""
    size = Size(Cpu.of(template.cpus), template.memory or Memory(0), template.gpus)
    return WorkerPlace(None, size, size)


def variable(name: str, value: str | SecretKey) -> Object:
    if isinstance(value, SecretKey):
        return {"name": name, "valueFrom": {"secretKeyRef": {"name": value.secret, "key": value.key}}}
    return {"name": name, "value": value}


DISK = "ephemeral-storage"
DISK_REQUEST, DISK_LIMIT = "1Gi", "20Gi"  # logs, scratch and temporary files; the target's resources say otherwise
MANAGED = {"app.kubernetes.io/managed-by": "scalable"}
RELAY_SIZE = Size(Cpu.of(0.25), Memory.parse("256MiB"))  # it only passes bytes on
LONGEST_NAME = 63  # of a pod, which is also its host name, and of a label


@dataclass(frozen=True, slots=True)
class Owner:
    """An object with whose end another ends."""

    kind: str
    name: str
    uid: str

    @property
    def reference(self) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": self.kind, "name": self.name, "uid": self.uid}


@dataclass(frozen=True, slots=True)
class KubernetesSite:
    """The properties that all objects of a run have in common."""

    run: str
    """Part of every object's name: up to 20 lower-case letters, digits and dashes."""
    namespace: str = "default"
    image: str | None = None
    """Of workers whose component names none, and of the relay."""
    service_account: str | None = None
    places: Mapping[str, WorkerPlace] = field(default_factory=dict)
    """By tag: pool, sizes and spread of its workers."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, str], ...] = ()
    env: Mapping[str, str | SecretKey] = field(default_factory=dict)
    requests: Mapping[str, str] = field(default_factory=dict)
    """Of resources that no profile or component states."""
    limits: Mapping[str, str] = field(default_factory=dict)
    relay: Size = RELAY_SIZE
    python: str = "python3"
    code: str = "image"
    walltime_s: float | None = None
    grace: float = GRACE_S
    owner: Owner | None = None
    """The parent, once it is there."""
    driver: Owner | None = None
    """The driver's own pod, when it runs in the cluster."""

    @classmethod
    def of(
        cls, spec: DeploymentSpec, run: str, *, grace: float = GRACE_S, driver: Owner | None = None
    ) -> KubernetesSite:
        """Make one for a target of a manifest; raises ``UsageError`` if it cannot be run there as written."""
        target = spec.target_as(KubernetesTarget)
        site = cls(
            run=run,
            namespace=target.namespace,
            image=target.image,
            service_account=target.worker_service_account,
            places=spec.places,
            node_selector=dict(target.node_selector),
            tolerations=tuple(toleration.written for toleration in target.tolerations),
            env={name: value if isinstance(value, SecretKey) else text(value) for name, value in target.env.items()},
            requests={name: str(value) for name, value in target.resources.requests.items()},
            limits={name: str(value) for name, value in target.resources.limits.items()},
            relay=Size(target.scheduler_cpu or RELAY_SIZE.cpu, target.scheduler_memory or RELAY_SIZE.memory),
            python=target.python,
            code=target.code,
            walltime_s=Duration.of_walltime(target.walltime).seconds if target.walltime else None,
            grace=grace,
            driver=driver,
        )
        for part in spec.components.values():
            if problem := site.unfit(part):
                raise UsageError(f"targets.{spec.target_name}: {part.tag}: {problem}")
        return site

    @property
    def name(self) -> str:
        """Return the name of the parent and the Secret, and the beginning of every pod's name."""
        return f"scalable-{self.run}"

    @property
    def labels(self) -> dict[str, str]:
        return {**MANAGED, "scalable/run": label(self.run)}

    @property
    def selector(self) -> str:
        """Return the label selector of everything of this run."""
        return ",".join(f"{name}={value}" for name, value in self.labels.items())

    def unfit(self, template: WorkerTemplate) -> str:
        """Return why a worker of this kind can never be had here; empty if it can."""
        image = template.image or self.image
        if image is None:
            return "no image is named; write image: REGISTRY/NAME:VERSION in the target, or in the component"
        if problem := unpinned(image):
            return f"{problem}; name a version or a digest"
        if template.mounts:
            folder = next(iter(template.mounts))
            return f"the folder {folder} of a node cannot be mounted in a pod; put it into the image or an object store"
        if template.preload_script and template.preload_script.endswith((".sh", ".bash")):
            return f"the shell script {template.preload_script} is not run in pods; make it part of the image"
        return ""


def label(value: str) -> str:
    """Return a text as the value of a label; one that cannot be one is shortened and gets a hash."""
    return shortened(re.sub(r"[^A-Za-z0-9._-]+", "-", value), value)


def shortened(name: str, whole: str) -> str:
    """Return at most 63 characters with a letter or digit at both ends; a hash stands for what was lost."""
    trimmed = name.strip("-._")
    if trimmed.endswith(whole) and len(trimmed) <= LONGEST_NAME:
        return trimmed
    mark = hashlib.blake2b(whole.encode(), digest_size=4).hexdigest()
    head = trimmed[: LONGEST_NAME - 9].rstrip("-._")
    return f"{head}-{mark}" if head else f"x{mark}"


def amounts(size: Size) -> dict[str, str]:
    """Return amounts as Kubernetes writes them; what is not stated is not limited."""
    written = {}
    if size.cpu.millis:
        whole, rest = divmod(size.cpu.millis, 1000)
        written["cpu"] = f"{size.cpu.millis}m" if rest else str(whole)
    if size.memory.bytes:
        mebibytes, rest = divmod(size.memory.bytes, 2**20)
        written["memory"] = str(size.memory.bytes) if rest else f"{mebibytes}Mi"
    if size.gpus:
        written["nvidia.com/gpu"] = str(size.gpus)
    return written


def text(value: object) -> str:
    """Return a value of the manifest as YAML writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
