"""The nodes that a forecast promises are those that the cluster's scheduler takes for the generated pods."""

from __future__ import annotations

from typing import Any

import pytest

from scalable.cluster.base import WorkerTemplate
from scalable.cluster.kubernetes.objects import KubernetesSite, handout_secret, worker_pod
from scalable.manifest.load import load_file
from scalable.manifest.models import Manifest
from scalable.planning.history import History
from scalable.planning.loads import loads_of
from scalable.planning.places import places
from scalable.planning.scenarios import margin_table
from scalable.planning.site import Site
from tests.helpers.kubernetes.helpers import IMAGE, Namespace
from tests.helpers.paths import ROOT
from tests.helpers.waiting import eventually

EXAMPLE = ROOT / "examples/ftf/scalable.yaml"
POOL = "ftf"
HARD = ["ftf-normal", "ftf-heavy", "worst-case"]  # spread, at least two nodes, most pods
OTHERS = ["discovery", "wfrb", "ftf-normal+discovery", "ftf-normal+wfrb", "ftf-heavy+wfrb"]


@pytest.fixture(scope="module")
def example() -> Manifest:
    return load_file(EXAMPLE, env={}).manifest


@pytest.mark.parametrize("scenario", [*HARD, *(pytest.param(one, marks=pytest.mark.long) for one in OTHERS)])
def test_a_scenario_takes_the_nodes_of_its_forecast(kube: Namespace, example: Manifest, scenario: str) -> None:
    row = next(row for row in margin_table(Site(example)) if row.scenario == scenario)
    assert nodes_taken(kube, example, scenario) == row.nodes


def test_without_spread_requests_alone_decide_and_the_forecast_says_so(kube: Namespace, example: Manifest) -> None:
    margins = example.policies.margins.model_copy(update={"spread": False})
    packed = example.model_copy(update={"policies": example.policies.model_copy(update={"margins": margins})})
    promised, row = (
        next(row for row in margin_table(Site(manifest)) if row.scenario == "ftf-normal")
        for manifest in (example, packed)
    )
    assert nodes_taken(kube, packed, "ftf-normal") == row.nodes_by_request == row.nodes < promised.nodes


def nodes_taken(kube: Namespace, manifest: Manifest, scenario: str) -> int:
    """Nodes under all that the scenario runs at once: runs that were started one after the other."""
    eventually(lambda: not kube.nodes(POOL), lambda: f"an empty pool, not {kube.nodes(POOL)}")
    kinds = places(manifest)
    loads, _ = loads_of(Site(manifest), scenario, manifest.scenarios[scenario], History())
    wanted = 0
    for number, load in enumerate(loads):
        tag = next(name for name, profile in manifest.profiles.items() if profile == load.profile)
        site = KubernetesSite(f"load-{number}", kube.name, IMAGE, places=kinds, node_selector={"pool": POOL})
        kube.admin.create(handout_secret(site, {}))
        for worker in range(load.workers):
            pod = worker_pod(site, WorkerTemplate(tag), f"{tag}-{worker}", [])
            pod["spec"]["containers"][0]["command"] = ["sleep", "infinity"]
            kube.admin.create(pod)
        wanted += load.workers
        eventually(lambda: len(placed(kube)) == wanted, lambda: f"{wanted} pods on nodes, not {placed(kube)}")  # noqa: B023
    used = set(placed(kube))
    assert sorted(used) == sorted(kube.nodes(POOL)), "a node came that nobody uses"
    for pod in kube.pods():
        kube.admin.delete("Pod", pod["metadata"]["name"], kube.name, gracePeriodSeconds=0)
    return len(used)


def placed(kube: Namespace) -> list[str]:
    pods: list[dict[str, Any]] = kube.pods()
    return [pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")]
