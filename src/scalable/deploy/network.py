"""Network policies: nothing but names, the pods of runs among themselves, and what the manifest names.

Which run a pod belongs to is known only when it starts, so pods of all runs of the namespace may connect to each other;
the certificates of each run keep them apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scalable.cluster.kubernetes.objects import MANAGED
from scalable.deploy.access import metadata
from scalable.deploy.deployment import Deployment
from scalable.deploy.document import Document
from scalable.deploy.egress import Destination, anywhere
from scalable.deploy.job import METRICS

OURS = {"matchLabels": MANAGED}
DRIVERS = {"matchLabels": {**MANAGED, "scalable/part": "driver"}}
WORKERS = {"matchLabels": MANAGED, "matchExpressions": [{"key": "scalable/worker", "operator": "Exists"}]}
DNS_PODS = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
    "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
}
DNS_ON_NODES = {"ipBlock": {"cidr": "169.254.20.10/32"}}  # where a cluster has a cache of names on every node
API_PORTS = (443, 6443)

Object = dict[str, Any]


def policies(deployment: Deployment) -> list[Document]:
    shared = [destination for destination in deployment.destinations if destination.workers]
    api = deployment.api_server
    api_rule = reach(api) if api else allow(anywhere(), *API_PORTS)
    documents = [
        Document(
            policy(deployment, "default-deny", {}, ingress=[], egress=[]),
            ("What no other policy allows is refused, for every pod of the namespace.",),
        ),
        Document(
            policy(deployment, "names", OURS, egress=[names()]),
            ("Names are looked up at the cluster's own servers.",),
        ),
        Document(
            policy(deployment, "runs", OURS, ingress=[among("from")], egress=[among("to")]),
            ("Driver, relay and workers connect to each other; certificates of the run keep others out.",),
        ),
        Document(
            policy(deployment, "driver", DRIVERS, egress=[*map(reach, deployment.destinations), api_rule]),
            tuple(destination_texts(deployment.destinations, [str(api) if api else "the API server: any address"])),
        ),
        Document(
            policy(deployment, "workers", WORKERS, egress=[*map(reach, shared)]),
            tuple(destination_texts(shared)) or ("Workers connect to nothing outside of their run.",),
        ),
    ]
    if deployment.prometheus:
        who = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": deployment.prometheus}}}
        ask = {"from": [who], "ports": [{"protocol": "TCP", "port": METRICS}]}
        comment = "Prometheus asks the driver for its figures; nothing else is shown on that port."
        documents.append(Document(policy(deployment, "metrics", DRIVERS, ingress=[ask]), (comment,)))
    return documents


def destination_texts(destinations: Iterable[Destination], more: Iterable[str] = ()) -> Iterable[str]:
    return [*(destination.note or str(destination) for destination in destinations), *more]


def policy(deployment: Deployment, name: str, pods: Object, **rules: list[Object]) -> Object:
    """Return a policy; ``ingress`` and ``egress`` that are not given stay as other policies say."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(deployment, f"scalable-{name}"),
        "spec": {
            "podSelector": pods,
            "policyTypes": [direction.capitalize() for direction in rules],
            **{direction: once(entries) for direction, entries in rules.items()},
        },
    }


def once(rules: list[Object]) -> list[Object]:
    """Return the rules without repetition: several destinations may need the same one."""
    return [rule for at, rule in enumerate(rules) if rule not in rules[:at]]


def reach(destination: Destination) -> Object:
    return allow(destination.peers, destination.port)


def allow(peers: list[Object], *ports: int) -> Object:
    return {"to": peers, "ports": [{"protocol": "TCP", "port": port} for port in ports]}


def names() -> Object:
    ports = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
    return {"to": [DNS_PODS, DNS_ON_NODES], "ports": ports}


def among(direction: str) -> Object:
    return {direction: [{"podSelector": OURS}], "ports": [{"protocol": "TCP", "port": 1024, "endPort": 65535}]}
