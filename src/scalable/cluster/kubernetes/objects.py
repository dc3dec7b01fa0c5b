"""The objects of a run on Kubernetes as the API takes them: a parent that owns all, a Secret, the relay and workers.

Pure: what is put in is all that counts. Pods ask for what the plan placed them with, run without any rights, write only
to folders that go with them, and end for good when their process ends; the engine decides what comes in their place.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from scalable.cluster.base import WorkerTemplate
from scalable.cluster.kubernetes import relay
from scalable.cluster.kubernetes.site import MANAGED, Owner, Site, amounts, label, shortened, text
from scalable.errors import UsageError
from scalable.manifest.targets import SecretKey
from scalable.planning.places import Place
from scalable.planning.resources import Size
from scalable.quantities import Cpu, Memory

__all__ = [
    "HANDOUT", "MANAGED", "SCRATCH", "STAYS", "USER", "Object", "Owner", "Site", "amounts", "beside_work",
    "handout_secret", "label", "parent", "pod_name", "pod_spec", "relay_pod", "spread", "text", "worker_pod",
]  # fmt: skip

HANDOUT, SCRATCH = "/scalable/handout", "/scratch"
"""Where a pod finds what the driver hands out, and where it may write."""
OWN = {"HOME": SCRATCH, "PYTHONUNBUFFERED": "1"}
"""Variables of every container: what it prints is read while it runs, and it may be killed at any time."""
USER = 10001  # any that is not root and no account of a node
CLOSING_S = 10  # what a worker needs to hand over and close, after the tasks it runs had their time
KIND_OF_NODE = ("kubernetes.io/arch", "kubernetes.io/os")  # what an image runs on, not whose nodes they are
NEVER_SO_MANY = 1_000_000  # nodes
MOST_IN_SECRET = 1_000_000  # bytes; the API takes 1 MiB with everything around them
STAYS = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
"""No autoscaler takes a node from under running work; the engine sends workers away when there is none."""

Object = dict[str, Any]


def parent(site: Site) -> Object:
    """Owns all others: to delete it is to delete them. In the cluster it ends with the driver's pod."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(site, site.name, site.labels, site.driver),
        "data": {"run": site.run},
    }


def handout_secret(site: Site, files: Mapping[str, bytes]) -> Object:
    """What the driver hands to workers: this run's certificates, and the project where code is uploaded."""
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


def worker_pod(site: Site, template: WorkerTemplate, name: str, arguments: Sequence[str]) -> Object:
    """One worker: ``arguments`` follow ``python -m scalable.worker``."""
    place = site.places.get(template.tag) or stated(template)
    marks = {**site.labels, "scalable/tag": label(template.tag), "scalable/worker": label(name)}
    spec = pod_spec(
        site,
        "worker",
        template.image or site.image,
        [site.python, "-m", "scalable.worker", *arguments],
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
    if tolerations := [dict(one) for one in (*site.tolerations, *place.tolerations)]:
        spec["tolerations"] = tolerations
    if apart := spread(place, {mark: marks[mark] for mark in ("scalable/run", "scalable/tag")}):
        spec["topologySpreadConstraints"] = [apart]
    return pod(site, name, marks, spec)


def relay_pod(site: Site) -> Object:
    """Through which a driver outside reaches its workers; it keeps away from nodes that come and go with work."""
    sizes = amounts(site.relay)
    command = [site.python, "-m", "scalable.cluster.kubernetes.relay", *relay.arguments(HANDOUT)]
    spec = pod_spec(site, "relay", site.image, command, {}, sizes, sizes)
    spec["containers"][0]["ports"] = [{"name": "workers", "containerPort": relay.WORKER_PORT, "protocol": "TCP"}]
    spec["terminationGracePeriodSeconds"] = 1  # nothing is in it that could be saved
    [handout] = [volume["secret"] for volume in spec["volumes"] if volume["name"] == "handout"]
    # not the run's keys: what it passes on it cannot read
    handout["items"] = [{"key": relay.TOKEN_FILE, "path": relay.TOKEN_FILE}]
    return pod(site, "relay", {**site.labels, "scalable/part": "relay"}, spec | beside_work(site))


def beside_work(site: Site) -> Object:
    """Where a pod goes that must outlast workers: rather to nodes that do not come and go with these.

    Where there are no others it is taken by theirs, so it puts up with what workers put up with.
    """
    labels: dict[str, set[str]] = {}
    tolerations: list[Object] = []
    for selector in (site.node_selector, *(place.selector for place in site.places.values())):
        for key, value in selector.items():
            labels.setdefault(key, set()).add(value)
    for one in (*site.tolerations, *(each for place in site.places.values() for each in place.tolerations)):
        tolerations += [dict(one)] if dict(one) not in tolerations else []
    found: Object = {"tolerations": tolerations} if tolerations else {}
    if kind := {key: value for key, value in site.node_selector.items() if key in KIND_OF_NODE}:
        found["nodeSelector"] = kind
    others = [
        {
            "weight": 100,
            "preference": {"matchExpressions": [{"key": key, "operator": "NotIn", "values": sorted(values)}]},
        }
        for key, values in sorted(labels.items())
        if key not in KIND_OF_NODE
    ]
    if others:
        found["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": others}}
    return found


def spread(place: Place, of: Mapping[str, str]) -> Object | None:
    """What makes the planned number of nodes real where requests alone do not.

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
    site: Site,
    role: str,
    image: str | None,
    command: Sequence[str],
    env: Mapping[str, str | SecretKey],
    requests: Mapping[str, str],
    limits: Mapping[str, str],
) -> Object:
    """One container without rights: what Kubernetes calls the restricted standard, and a read-only root besides."""
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
            {"name": "tmp", "emptyDir": {}},
            {"name": "scratch", "emptyDir": {}},
            {"name": "handout", "secret": {"secretName": site.name, "defaultMode": 0o440}},
        ],
    }


def pod(site: Site, name: str, labels: Mapping[str, str], spec: Object) -> Object:
    about = metadata(site, pod_name(site, name), labels, site.owner)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**about, "annotations": dict(STAYS)}, "spec": spec}


def metadata(site: Site, name: str, labels: Mapping[str, str], owner: Owner | None) -> Object:
    found: Object = {"name": name, "namespace": site.namespace, "labels": dict(labels)}
    return {**found, "ownerReferences": [owner.reference]} if owner else found


def pod_name(site: Site, worker: str) -> str:
    """What the pod of a worker is called; different workers have different names."""
    return shortened(f"{site.name}-{re.sub(r'[^a-z0-9-]+', '-', worker.lower())}", worker)


def stated(template: WorkerTemplate) -> Place:
    """For a kind of worker that no manifest places: what it says itself."""
    size = Size(Cpu.of(template.cpus), template.memory or Memory(0), template.gpus)
    return Place(None, size, size)


def variable(name: str, value: str | SecretKey) -> Object:
    if isinstance(value, SecretKey):
        return {"name": name, "valueFrom": {"secretKeyRef": {"name": value.secret, "key": value.key}}}
    return {"name": name, "value": value}
