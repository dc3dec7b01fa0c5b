"""What all objects of a run on Kubernetes have in common, and how names and amounts are written there."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scalable.cluster.base import DeploymentSpec, WorkerTemplate
from scalable.errors import UsageError
from scalable.manifest.targets import KubernetesTarget, SecretKey, unpinned
from scalable.planning.places import Place
from scalable.planning.resources import Size
from scalable.quantities import Cpu, Duration, Memory
from scalable.worker.options import GRACE_S

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
class Site:
    """What all objects of a run have in common."""

    run: str
    """Part of every object's name: up to 20 lower-case letters, digits and dashes."""
    namespace: str = "default"
    image: str | None = None
    """Of workers whose component names none, and of the relay."""
    service_account: str | None = None
    places: Mapping[str, Place] = field(default_factory=dict)
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
    def of(cls, spec: DeploymentSpec, run: str, *, grace: float = GRACE_S, driver: Owner | None = None) -> Site:
        """For a target of a manifest; raises ``UsageError`` if it cannot be run there as written."""
        target = spec.target
        assert isinstance(target, KubernetesTarget), "a kubernetes provider is asked for kubernetes targets only"
        site = cls(
            run=run,
            namespace=target.namespace,
            image=target.image,
            service_account=target.worker_service_account,
            places=spec.places,
            node_selector=dict(target.node_selector),
            tolerations=tuple(one.written for one in target.tolerations),
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
        """Of the parent, the Secret and, with more behind it, of every pod."""
        return f"scalable-{self.run}"

    @property
    def labels(self) -> dict[str, str]:
        return {**MANAGED, "scalable/run": label(self.run)}

    @property
    def selector(self) -> str:
        """Finds everything of this run, as the API is asked for it."""
        return ",".join(f"{name}={value}" for name, value in self.labels.items())

    def unfit(self, template: WorkerTemplate) -> str:
        """Why a worker of this kind can never be had here; empty if it can."""
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
    """A text as the value of a label; one that cannot be a label is shortened, and told from others by a hash."""
    return shortened(re.sub(r"[^A-Za-z0-9._-]+", "-", value), value)


def shortened(name: str, whole: str) -> str:
    """At most 63 characters with a letter or digit at both ends; what was lost of the whole is kept as a hash."""
    trimmed = name.strip("-._")
    if trimmed.endswith(whole) and len(trimmed) <= LONGEST_NAME:
        return trimmed
    mark = hashlib.blake2b(whole.encode(), digest_size=4).hexdigest()
    head = trimmed[: LONGEST_NAME - 9].rstrip("-._")
    return f"{head}-{mark}" if head else f"x{mark}"


def amounts(size: Size) -> dict[str, str]:
    """As Kubernetes writes them; what is not stated is not limited."""
    found = {}
    if size.cpu.millis:
        whole, rest = divmod(size.cpu.millis, 1000)
        found["cpu"] = f"{size.cpu.millis}m" if rest else str(whole)
    if size.memory.bytes:
        mebibytes, rest = divmod(size.memory.bytes, 2**20)
        found["memory"] = str(size.memory.bytes) if rest else f"{mebibytes}Mi"
    if size.gpus:
        found["nvidia.com/gpu"] = str(size.gpus)
    return found


def text(value: object) -> str:
    """A value of the manifest as YAML writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
