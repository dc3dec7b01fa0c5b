"""The namespace and who may do what in it: a driver that makes pods, workers that may do nothing, and people."""

from __future__ import annotations

from typing import Any

from scalable.cluster.kubernetes.objects import MANAGED
from scalable.deploy.deployment import Deployment
from scalable.deploy.document import Document

DRIVER, USER, WATCHER = "scalable-driver", "scalable-user", "scalable-prometheus"
Right = tuple[str, tuple[str, ...], tuple[str, ...]]
RIGHTS: tuple[Right, ...] = (
    ("", ("pods",), ("create", "get", "list", "watch", "delete")),
    ("", ("pods/log",), ("get",)),
    ("", ("configmaps",), ("create", "get", "delete")),
    ("", ("secrets",), ("create",)),
    ("", ("events",), ("list", "watch")),
)
"""What a driver does; secrets of others it can neither read nor list."""
FORWARD: Right = ("", ("pods/portforward",), ("create", "get"))
"""How a driver outside of the cluster reaches the run's relay."""
FIND: Right = ("", ("pods",), ("get", "list", "watch"))
"""How Prometheus finds drivers."""
STANDARD = "restricted"  # the strictest of Kubernetes' three pod security standards

Object = dict[str, Any]


def namespace(deployment: Deployment) -> Document:
    levels = {f"pod-security.kubernetes.io/{mode}": STANDARD for mode in ("enforce", "audit", "warn")}
    about = {"name": deployment.namespace, "labels": {**MANAGED, **levels}}
    comment = "Pods that are not of the restricted standard are refused in this namespace."
    return Document({"apiVersion": "v1", "kind": "Namespace", "metadata": about}, (comment,))


def accounts(deployment: Deployment) -> list[Document]:
    documents = [Document(account(deployment, DRIVER), ("Runs sweeps in the cluster; only its pods get a token.",))]
    if worker := deployment.settings.worker_service_account:
        documents.append(Document(account(deployment, worker), ("Workers: no rights, and no token to try with.",)))
    return documents


def account(deployment: Deployment, name: str) -> Object:
    about = metadata(deployment, name)
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about, "automountServiceAccountToken": False}


def rights(deployment: Deployment) -> list[Document]:
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata(deployment, DRIVER),
        "subjects": [{"kind": "ServiceAccount", "name": DRIVER, "namespace": deployment.namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": DRIVER},
    }
    command = f"kubectl --namespace {deployment.namespace} create rolebinding NAME --role {USER} --user NAME"
    documents = [
        Document(role(deployment, DRIVER, *RIGHTS), ("All that a driver does, in this namespace only.",)),
        Document(binding),
        Document(role(deployment, USER, *RIGHTS, FORWARD), ("For people who run from their own machine:", command)),
    ]
    if deployment.prometheus:
        comments = ("For a Prometheus that looks for drivers here:", *watching_steps(deployment))
        documents.append(Document(role(deployment, WATCHER, FIND), comments))
    return documents


def watching_steps(deployment: Deployment) -> list[str]:
    """Return what a Prometheus needs that has no rights in other namespaces than its own."""
    if not deployment.prometheus:
        return []
    return [
        f"kubectl --namespace {deployment.namespace} create rolebinding {WATCHER} --role {WATCHER}"
        f" --serviceaccount {deployment.prometheus}:NAME  # NAME: the account of your Prometheus"
    ]


def role(deployment: Deployment, name: str, *rights: Right) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata(deployment, name),
        "rules": [
            {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
            for group, resources, verbs in rights
        ],
    }


def metadata(deployment: Deployment, name: str, **labels: str) -> Object:
    mine = {**MANAGED, "app.kubernetes.io/part-of": deployment.project, **labels}
    return {"name": name, "namespace": deployment.namespace, "labels": mine}
