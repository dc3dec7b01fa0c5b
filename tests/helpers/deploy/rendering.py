"""A manifest for a cluster, its files, and what their policies let through."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import yaml

from scalable.deploy.deployment import deployment
from scalable.deploy.kubernetes import Rendered, rendered
from scalable.deploy.source import Source
from scalable.manifest import load_text

MANIFEST = """\
version: 1
project: {name: lab}
targets:
  cluster:
    provider: kubernetes
    namespace: lab
    image: lab/sweeps:1.4
    worker_service_account: lab-worker
    node_selector: {pool: compute}
    env:
      LEVEL: info
      AWS_SECRET_ACCESS_KEY: {secret: lab-objects, key: secret}
    egress: [prices.example.com:443, "10.20.0.0/16:9000"]
    adaptive: {minimum: 0, maximum: 24}
nodes:
  M: {cpu: 16, memory: 64GiB, allocatable: {cpu: 15.6, memory: 60GiB}, price: 0.16 EUR/h}
pools:
  compute: {node: M, min: 0, max: 6}
profiles:
  standard: {request: {cpu: 2, memory: 2GiB}, limit: {cpu: 4, memory: 8GiB}}
  heavy: {request: {cpu: 2, memory: 12GiB}, limit: {cpu: 4, memory: 24GiB}}
sweeps:
  calibration: {factor: calibration, assets: [X, Y]}
store: ${SCALABLE_STORE_URL}
artefacts: s3://lab/artefacts
tracking: http://mlflow.tools.svc:5000
"""
PASSWORD = "correct-horse-battery"
URL = f"postgresql://lab:{PASSWORD}@10.9.8.7:6432/results"
DRIVER = {"app.kubernetes.io/managed-by": "scalable", "scalable/part": "driver"}
WORKER = {"app.kubernetes.io/managed-by": "scalable", "scalable/worker": "standard-1", "scalable/tag": "standard"}


def render(
    text: str = MANIFEST,
    *,
    env: Mapping[str, str] = {"SCALABLE_STORE_URL": URL},
    target: str | None = None,
    sweep: str | None = None,
    overlay: str | None = None,
    helm: bool = False,
    api_server: str | None = None,
    prometheus: str | None = None,
    folder: Path = Path("deploy"),
    project: Path = Path(),
) -> Rendered:
    source = Source.of(text, "scalable.yaml", target, overlay, env)
    loaded = load_text(text, "scalable.yaml", env=source.environment, target=source.target, overlay=overlay)
    return rendered(deployment(source, loaded, sweep, api_server, prometheus), folder, project, helm=helm)


def objects(found: Rendered) -> list[dict[str, Any]]:
    texts = [text for name, text in found.files.items() if name.endswith(".yaml")]
    return [one for text in texts for one in yaml.safe_load_all(text) if "kind" in one]


def only(found: Rendered, kind: str, name: str | None = None) -> dict[str, Any]:
    (one,) = (
        each for each in objects(found) if each["kind"] == kind and name in (None, each["metadata"]["name"])
    )  # fmt: skip
    return one


def driver(found: Rendered) -> dict[str, Any]:
    """The spec of the driver's pod."""
    spec: dict[str, Any] = only(found, "Job")["spec"]["template"]["spec"]
    return spec


def charted(found: Rendered) -> list[dict[str, Any]]:
    """What Helm makes of a chart whose templates only name values."""
    values = yaml.safe_load(found.files["values.yaml"])

    def value(match: re.Match[str]) -> str:
        word, _, quoted = match[1].partition(" | ")
        if word == '"{{"':
            return "{{"
        if word == ".Release.Revision":
            return "1"
        assert word.startswith(".Values."), word
        part: Any = values
        for key in word.removeprefix(".Values.").split("."):
            part = part[key]
        assert quoted == "quote", word
        return json.dumps(str(part))

    templates = [text for name, text in found.files.items() if name.startswith("templates/")]
    texts = [re.sub(r"\{\{ (.*?) \}\}", value, text) for text in [*templates, found.files["namespace.yaml"]]]
    return [one for text in texts for one in yaml.safe_load_all(text)]


@dataclass(frozen=True)
class Network:
    """What NetworkPolicies let out of pods of the namespace ``lab``, by Kubernetes' rules."""

    policies: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, found: Rendered) -> Network:
        return cls([one["spec"] for one in objects(found) if one["kind"] == "NetworkPolicy"])

    def reaches(
        self,
        labels: Mapping[str, str],
        port: int,
        *,
        address: str | None = None,
        namespace: str = "lab",
        pod: Mapping[str, str] | None = None,
        protocol: str = "TCP",
    ) -> bool:
        mine = [one for one in self.policies if selects(one["podSelector"], labels) and "Egress" in one["policyTypes"]]
        rules = [rule for one in mine for rule in one.get("egress", [])]
        return not mine or any(
            any(one["protocol"] == protocol and through(one, port) for one in rule["ports"])
            and any(leads(peer, address, namespace, pod or {}) for peer in rule["to"])
            for rule in rules
        )

    def lets_in(self, labels: Mapping[str, str], port: int, *, pod: Mapping[str, str], namespace: str = "lab") -> bool:
        mine = [one for one in self.policies if selects(one["podSelector"], labels) and "Ingress" in one["policyTypes"]]
        rules = [rule for one in mine for rule in one.get("ingress", [])]
        return not mine or any(
            any(through(one, port) for one in rule["ports"])
            and any(leads(peer, None, namespace, pod) for peer in rule["from"])
            for rule in rules
        )


def through(ports: Mapping[str, Any], port: int) -> bool:
    return bool(ports["port"] <= port <= ports.get("endPort", ports["port"]))


def leads(peer: Mapping[str, Any], address: str | None, namespace: str, pod: Mapping[str, str]) -> bool:
    if "ipBlock" in peer:
        if address is None:
            return False
        inside = [ip_address(address) in ip_network(cidr) for cidr in peer["ipBlock"].get("except", [])]
        return ip_address(address) in ip_network(peer["ipBlock"]["cidr"]) and not any(inside)
    if address is not None:
        return False
    there = peer.get("namespaceSelector", {"matchLabels": {"kubernetes.io/metadata.name": "lab"}})
    named = selects(there, {"kubernetes.io/metadata.name": namespace})
    return named and selects(peer.get("podSelector", {}), pod)


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    exists = [one["key"] in labels for one in selector.get("matchExpressions", []) if one["operator"] == "Exists"]
    return all(labels.get(name) == value for name, value in selector.get("matchLabels", {}).items()) and all(exists)
