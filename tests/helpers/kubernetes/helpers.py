"""Builders for tests on Kubernetes: a namespace with an account in it, a user's project, and what is left of a run."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from scalable.observe import RunFolder
from scalable.observe.journal import read
from scalable.session.session import ScalableSession
from tests.tools.kube import KubeClient, PrivateKube
from tests.tools.kube.client import path_to

WITHIN_S = 90.0  # a hang is longer than anything a busy machine needs
ACCOUNT = "driver"
RIGHTS = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "get", "list", "watch", "delete"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["create", "get"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get", "delete"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch"]},
]
OURS = "app.kubernetes.io/managed-by=scalable"
IMAGE = "registry.example/scalable:0.1.0"  # nodes that are played run this machine's programs, whatever the image
SMALL = {"cpus": 1, "memory": "700M"}
MODEL = """
import os, pathlib, time

def answer(x):
    return x + 1, len(os.environ["GREETING"]), os.environ["HOSTNAME"]

def long(told):
    told = pathlib.Path(told)
    (told.parent / f"running-{os.environ['HOSTNAME']}").touch()
    while not told.exists():
        time.sleep(0.05)
    return len(list(told.parent.glob("running-*")))

def hungry(told, size):
    much = bytearray(size)
    time.sleep(2)  # long enough for whoever measures
    return long(told)
"""
numbers = itertools.count()


class Namespace:
    """Where one test has its pods, as the administrator sees it."""

    def __init__(self, cluster: PrivateKube, name: str, folder: Path) -> None:
        self.cluster = cluster
        self.name = name
        self.admin: KubeClient = cluster.admin
        self.kubeconfig = folder / "kubeconfig"
        """Of the account that runs drivers."""

    @classmethod
    @contextmanager
    def made(cls, cluster: PrivateKube, folder: Path) -> Iterator[Namespace]:
        made = cls(cluster, f"test-{os.getpid()}-{next(numbers)}", folder)
        meta = {"name": made.name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
        cluster.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        try:
            made.create("ServiceAccount", ACCOUNT)
            made.create("Role", ACCOUNT, rules=RIGHTS)
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT}
            subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": made.name}
            made.create("RoleBinding", ACCOUNT, roleRef=role, subjects=[subject])
            made.admin.kubeconfig(made.kubeconfig, made.admin.token_of(ACCOUNT, made.name), made.name)
            made.shared.mkdir(parents=True)
            yield made
        finally:
            made.admin.delete("Namespace", made.name)

    @property
    def shared(self) -> Path:
        """A folder that its pods see as it is here."""
        return self.cluster.shared / self.name

    def create(self, kind: str, name: str, **rest: Any) -> dict[str, Any]:
        groups = {"Role": "rbac.authorization.k8s.io/v1", "RoleBinding": "rbac.authorization.k8s.io/v1"}
        about = {"name": name, "namespace": self.name, "labels": rest.pop("labels", {})}
        return self.admin.create({"apiVersion": groups.get(kind, "v1"), "kind": kind, "metadata": about, **rest})

    def pod(self, name: str, pool: str, *command: str, labels: dict[str, str] | None = None, **spec: Any) -> None:
        """Somebody else's."""
        box = {
            "name": "main", "image": IMAGE, "command": list(command),
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            **spec.pop("container", {}),
        }  # fmt: skip
        rights = {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}}
        rest = {"restartPolicy": "Never", "nodeSelector": {"pool": pool}, "securityContext": rights, **spec}
        self.create("Pod", name, labels=labels or {}, spec={"containers": [box], **rest})

    def pods(self, labels: str = OURS) -> list[dict[str, Any]]:
        return self.admin.all("Pod", self.name, labels)

    def workers(self) -> dict[str, dict[str, Any]]:
        """Pods of workers that are not on their way out, by name."""
        pods = self.pods(f"{OURS},scalable/worker")
        there = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp") and not over(pod)]
        return {pod["metadata"]["name"]: pod for pod in there}

    def left(self) -> list[str]:
        """Whatever a run has made and is still there."""
        kinds = ("Pod", "ConfigMap", "Secret")
        found = [(kind, one) for kind in kinds for one in self.admin.all(kind, self.name, OURS)]
        return [f"{kind} {one['metadata']['name']}" for kind, one in found]

    def nodes(self, pool: str) -> list[str]:
        return [node["metadata"]["name"] for node in self.admin.all("Node", labels=f"pool={pool}")]

    def allow(self, rules: list[dict[str, list[str]]]) -> None:
        """The driver's account may do this from now on, and nothing else."""
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": ACCOUNT}}
        path = f"{path_to('Role', self.name)}/{ACCOUNT}"
        self.admin.ask("PUT", path, {**role, "rules": [one for one in rules if one["verbs"]]})

    def crash(self, node: str) -> None:
        self.cluster.crash(node)

    def restore(self) -> None:
        """Bring crashed nodes back."""
        self.cluster.start()


class Project:
    """A folder with a manifest and some code, as a user has it."""

    def __init__(self, folder: Path, kube: Namespace) -> None:
        self.folder = folder
        self.kube = kube
        (folder / "model.py").write_text(MODEL)

    def target(self, pool: str = "steady", **more: Any) -> dict[str, Any]:
        return {
            "provider": "kubernetes", "namespace": self.kube.name, "image": IMAGE, "node_selector": {"pool": pool},
            "code": "upload", **more,
        }  # fmt: skip

    def write(self, target: dict[str, Any] | None = None, **sections: Any) -> Path:
        manifest = {
            "version": 1, "project": {"name": "there"}, "targets": {"there": target or self.target()},
            "policies": {"retry": {"delay": "0s"}}, **sections,
        }  # fmt: skip
        file = self.folder / "scalable.yaml"
        file.write_text(yaml.safe_dump(manifest, sort_keys=False), encoding="utf-8")
        return file

    def session(self, target: dict[str, Any] | None = None, **sections: Any) -> ScalableSession:
        return ScalableSession.from_yaml(self.write(target, **sections), target="there")

    def journal(self, kind: str) -> list[dict[str, Any]]:
        runs = RunFolder.list(self.folder / ".scalable/runs")
        return [record for run in runs for record in read(run.journal) if record["kind"] == kind]

    def running(self) -> list[str]:
        """Pods in which ``long`` has begun."""
        return sorted(file.name.partition("-")[2] for file in self.kube.shared.glob("running-*"))


def without(verb: str, resource: str) -> list[dict[str, list[str]]]:
    """The rights of a driver but for one."""
    return [
        {**rule, "verbs": [one for one in rule["verbs"] if one != verb]} if rule["resources"] == [resource] else rule
        for rule in RIGHTS
    ]


def over(pod: dict[str, Any]) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def shown(things: Any) -> str:
    return json.dumps(things, indent=1, default=str)
