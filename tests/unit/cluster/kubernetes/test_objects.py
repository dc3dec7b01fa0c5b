"""The objects of a run: valid for the API, without rights, placed as planned, and all gone with their parent."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import kubernetes_validate
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalable.cluster.base import DeploymentSpec, WorkerTemplate
from scalable.cluster.kubernetes import objects
from scalable.cluster.kubernetes.answers import read
from scalable.cluster.kubernetes.objects import KubernetesSite, Owner
from scalable.errors import PlanningError, UsageError
from scalable.manifest import load_file, load_text
from scalable.manifest.models import Manifest
from scalable.planning.packing import pack
from scalable.planning.placement import PoolRoom
from scalable.planning.places import WorkerPlace
from scalable.planning.plan import plan_sweep
from scalable.planning.resources import Size, allocatable
from scalable.planning.site import Site
from scalable.quantities import Cpu, Memory
from scalable.worker.options import WorkerOptions
from tests.helpers.paths import ROOT

EXAMPLE = ROOT / "examples/ftf/scalable.yaml"
DIGEST = "sha256:" + "0123456789abcdef" * 4
API_VERSION = "1.33"
MANIFEST = """
version: 1
project: {name: ftf}
targets:
  cluster:
    provider: kubernetes
    namespace: ftf
    image: registry.example.com/ftf:1.4
    worker_service_account: worker
    node_selector: {arch: amd64}
    tolerations: [{key: batch, operator: Exists}]
    env: {MODE: fast, DEBUG: false, TOKEN: {secret: store, key: token}}
    resources: {limits: {ephemeral-storage: 4Gi}}
    scheduler_cpu: 500m
    scheduler_memory: 512MiB
    walltime: "04:00:00"
nodes:
  m: {cpu: 16, memory: 64GiB, allocatable: {cpu: 15.6, memory: 60GiB}, price: 0.16 EUR/h}
pools:
  permanent: {node: m, count: 1, used: {cpu: 3, memory: 8GiB}}
  compute:
    {node: m, max: 6, labels: {pool: compute}, tolerations: [{key: pool, value: compute, effect: NoSchedule}]}
  gpu: {node: m, max: 2, labels: {pool: gpu}}
sweeps:
  calibration: {factor: calibration, assets: defi_top5, run_minutes: 1}
  fold_size: {factor: fold_size, assets: defi_top5, run_minutes: 1, profile: wfrb, pool: gpu}
components:
  demeter: {image: "registry.example.com/demeter:2.0", cpus: 10, memory: 20GiB, env: {OMP_NUM_THREADS: 5, MODE: slow}}
"""


def manifest(text: str = MANIFEST) -> Manifest:
    return load_text(text, env={}).manifest


def a_spec(text: str = MANIFEST) -> DeploymentSpec:
    return DeploymentSpec.from_manifest(manifest(text), target_name="cluster")


def a_site(text: str = MANIFEST) -> KubernetesSite:
    return replace(KubernetesSite.of(a_spec(text), "r1"), owner=Owner("ConfigMap", "scalable-r1", "u-1"))


def worker(tag: str, site: KubernetesSite | None = None, name: str | None = None) -> dict[str, Any]:
    options = WorkerOptions("tls://10.0.0.1:8786", name or f"{tag}-0", {tag: 1.0}, handout=objects.HANDOUT)
    template = a_spec().components.get(tag) or WorkerTemplate(tag, memory=Memory.parse("1GiB"))
    return objects.worker_pod(site or a_site(), template, name or f"{tag}-0", options.arguments())


def every_object() -> Iterator[dict[str, Any]]:
    site = a_site()
    yield objects.parent(replace(site, owner=None))
    yield objects.parent(replace(site, owner=None, driver=Owner("Pod", "driver-x", "u-0")))
    yield objects.handout_secret(site, {"ca.pem": b"x", "key.pem": b"y"})
    yield objects.relay_pod(site)
    for tag in ("standard", "heavy", "wfrb", "demeter", "unplaced"):
        yield worker(tag, site)


def pods() -> list[dict[str, Any]]:
    return [one for one in every_object() if one["kind"] == "Pod"]


def test_every_object_is_valid_for_the_api() -> None:
    for one in every_object():
        kubernetes_validate.validate(one, API_VERSION, strict=True)
    broken = worker("standard")
    broken["spec"]["restartPolice"] = broken["spec"].pop("restartPolicy")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, API_VERSION, strict=True)


def test_deleting_the_parent_deletes_everything_of_the_run() -> None:
    owners = [one["metadata"].get("ownerReferences") for one in every_object()]

    assert owners[0] is None
    assert owners[1] == [{"apiVersion": "v1", "kind": "Pod", "name": "driver-x", "uid": "u-0"}]
    assert all(
        o == [{"apiVersion": "v1", "kind": "ConfigMap", "name": "scalable-r1", "uid": "u-1"}] for o in owners[2:]
    )


def test_everything_is_found_by_its_labels() -> None:
    for one in every_object():
        labels = one["metadata"]["labels"]
        assert (labels["app.kubernetes.io/managed-by"], labels["scalable/run"]) == ("scalable", "r1")
    found = worker("heavy")["metadata"]["labels"]
    assert (found["scalable/tag"], found["scalable/worker"]) == ("heavy", "heavy-0")


def test_pods_have_no_rights_and_write_only_to_their_own_folders() -> None:
    for pod in pods():
        spec, container = pod["spec"], pod["spec"]["containers"][0]
        assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] >= 10000
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        writable = [one["mountPath"] for one in container["volumeMounts"] if not one.get("readOnly")]
        assert writable == ["/tmp", objects.SCRATCH]
        limit = container["resources"]["limits"]["ephemeral-storage"]
        assert {"name": "scratch", "emptyDir": {"sizeLimit": limit}} in spec["volumes"]


def test_a_pod_that_ended_stays_ended_and_has_time_to_hand_over() -> None:
    pod = worker("standard", replace(a_site(), grace=45.5))

    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["terminationGracePeriodSeconds"] == 56
    assert pod["spec"]["activeDeadlineSeconds"] == 4 * 3600
    assert "activeDeadlineSeconds" not in worker("standard", replace(a_site(), walltime_s=None))["spec"]


def test_no_autoscaler_takes_a_node_from_under_a_worker() -> None:
    for pod in pods():
        assert pod["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"


def test_a_secret_is_named_and_never_written_down() -> None:
    env = {one["name"]: one for one in worker("standard")["spec"]["containers"][0]["env"]}

    assert env["TOKEN"] == {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "store", "key": "token"}}}
    assert (env["MODE"]["value"], env["DEBUG"]["value"]) == ("fast", "false")


def test_what_a_component_says_of_its_surroundings_wins_over_the_target() -> None:
    env = {one["name"]: one.get("value") for one in worker("demeter")["spec"]["containers"][0]["env"]}

    assert (env["MODE"], env["OMP_NUM_THREADS"], env["MKL_NUM_THREADS"]) == ("slow", "5", "10")
    assert worker("demeter")["spec"]["containers"][0]["image"] == "registry.example.com/demeter:2.0"


def test_workers_go_to_their_pool_and_not_to_the_permanent_one() -> None:
    heavy, wfrb = worker("heavy")["spec"], worker("wfrb")["spec"]

    assert heavy["nodeSelector"] == {"arch": "amd64", "pool": "compute"}
    assert heavy["tolerations"] == [
        {"key": "batch", "operator": "Exists"},
        {"key": "pool", "value": "compute", "effect": "NoSchedule"},
    ]
    assert wfrb["nodeSelector"] == {"arch": "amd64", "pool": "gpu"}
    assert {place.pool for place in a_spec().places.values()} == {"compute", "gpu"}


def test_the_relay_keeps_away_from_nodes_that_come_and_go_with_work() -> None:
    spec = objects.relay_pod(a_site())["spec"]
    terms = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]

    assert "nodeSelector" not in spec
    assert spec["tolerations"] == worker("heavy")["spec"]["tolerations"], "there may be no other nodes"
    assert {"key": "pool", "operator": "NotIn", "values": ["compute", "gpu"]} in [
        one["preference"]["matchExpressions"][0] for one in terms
    ]
    assert spec["containers"][0]["resources"]["limits"] == {
        "cpu": "500m",
        "memory": "512Mi",
        "ephemeral-storage": "20Gi",
    }
    assert spec["containers"][0]["command"][:6] == [
        *("python3", "-P", "-m", "scalable.cluster.kubernetes.relay", "--listen=:8786", "--control=127.0.0.1:8787")
    ]


def test_the_relay_has_its_token_and_no_keys() -> None:
    [handout] = [one for one in objects.relay_pod(a_site())["spec"]["volumes"] if one["name"] == "handout"]

    assert handout["secret"]["items"] == [{"key": "relay-token", "path": "relay-token"}]


def test_the_relay_runs_where_its_image_can() -> None:
    spec = objects.relay_pod(replace(a_site(), node_selector={"kubernetes.io/arch": "amd64"}))["spec"]

    assert spec["nodeSelector"] == {"kubernetes.io/arch": "amd64"}
    assert "arch" not in str(spec["affinity"])


def test_a_worker_asks_for_what_the_plan_placed_it_with_and_is_limited_by_its_profile() -> None:
    resources = worker("standard")["spec"]["containers"][0]["resources"]

    assert resources["requests"] == {"cpu": "3900m", "memory": "2048Mi"}
    assert resources["limits"] == {"cpu": "4", "memory": "8192Mi", "ephemeral-storage": "4Gi"}


def test_gpus_are_asked_for_as_they_are_limited() -> None:
    size = Size(Cpu.of(1), Memory.parse("1GiB"), 1)
    place = WorkerPlace(None, replace(size, gpus=0), size)
    found = worker("standard", replace(a_site(), places={"standard": place}))["spec"]["containers"][0]["resources"]

    assert found["requests"]["nvidia.com/gpu"] == found["limits"]["nvidia.com/gpu"] == "1"


def test_a_profile_that_needs_several_nodes_is_spread_over_them() -> None:
    assert "topologySpreadConstraints" not in worker("standard")["spec"]
    assert worker("heavy")["spec"]["topologySpreadConstraints"] == [
        {
            "maxSkew": 1,
            "minDomains": 2,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"scalable/run": "r1", "scalable/tag": "heavy"}},
            "nodeTaintsPolicy": "Honor",
        }
    ]


def test_where_requests_cannot_keep_workers_apart_a_limit_for_each_node_does() -> None:
    place = replace(a_spec().places["standard"], at_most=3)
    rule = worker("standard", replace(a_site(), places={"standard": place}))["spec"]["topologySpreadConstraints"][0]

    assert rule["maxSkew"] == 3
    assert rule["minDomains"] > 1000, "the emptiest node then counts as empty, so that the skew is a limit"


PROMISED = {
    "ftf-normal": ({"standard": 10}, 3, 2),
    "ftf-heavy": ({"heavy": 5}, 2, 1),
    "discovery": ({"standard": 5}, 2, 1),
    "ftf-normal+discovery": ({"standard": 15}, 4, 3),
}
"""By scenario of the example: its workers, the nodes that were promised, and those that requests as written need."""


def nodes_of_pods(found: Manifest, counts: dict[str, int], apart: frozenset[str] = frozenset()) -> int:
    """Nodes that the generated pods take by their requests and spread rules, as a scheduler packs them."""
    spec = DeploymentSpec.from_manifest(found, target_name="cluster", apart=apart)
    site = replace(KubernetesSite.of(replace(spec, components={}), "r1"), image="ftf:1.4")
    made = {tag: objects.worker_pod(site, spec.components[tag], f"{tag}-0", [])["spec"] for tag in counts}
    rules = {tag: one.get("topologySpreadConstraints", [{}])[0].get("minDomains", 1) for tag, one in made.items()}
    requests = {tag: size_of(one["containers"][0]["resources"]["requests"]) for tag, one in made.items()}
    return PoolRoom("compute", allocatable(found.nodes["PRO2-M"]), 6, requests, rules).nodes(counts)


@pytest.mark.parametrize("scenario", PROMISED)
def test_the_pods_of_the_example_take_as_many_nodes_as_were_promised(scenario: str) -> None:
    counts, promised, by_written_requests = PROMISED[scenario]
    found = load_file(EXAMPLE, env={}).manifest
    written = [(Size.of(found.profiles[tag].request), count) for tag, count in counts.items()]

    assert pack(written, allocatable(found.nodes["PRO2-M"])).count == by_written_requests
    assert nodes_of_pods(found, counts) == promised


@pytest.mark.parametrize("sweep", ["calibration", "timeframe", "n_features"])
def test_the_pods_of_a_planned_sweep_take_as_many_nodes_as_its_forecast_says(sweep: str) -> None:
    found = load_file(EXAMPLE, env={}).manifest
    plan = plan_sweep(Site(found, "cluster"), sweep)

    assert nodes_of_pods(found, plan.workers_by_tag, plan.scale_plan.apart) == plan.nodes_peak
    assert plan.roomy == (sweep == "n_features"), "one of them keeps its margins only if its workers stand apart"


def size_of(amounts: dict[str, str]) -> Size:
    cpu, memory = read(amounts["cpu"]), read(amounts["memory"])
    assert cpu is not None and memory is not None
    return Size(Cpu(int(cpu * 1000)), Memory(int(memory)))


def test_the_handout_is_in_a_secret_of_the_run_only() -> None:
    found = objects.handout_secret(a_site(), {"key.pem": b"private"})

    assert base64.b64decode(found["data"]["key.pem"]) == b"private"
    assert found["metadata"]["name"] == "scalable-r1"
    volumes = {one["name"]: one for one in worker("standard")["spec"]["volumes"]}
    assert volumes["handout"]["secret"] == {"secretName": "scalable-r1", "defaultMode": 0o440}


def test_a_project_too_large_for_a_secret_is_refused() -> None:
    with pytest.raises(UsageError, match=r"project\.zip has 2,000,000; at most 1,000,000.*write code: image"):
        objects.handout_secret(a_site(), {"project.zip": b"x" * 2_000_000})


WRONG = {
    "no image": ("    image: registry.example.com/ftf:1.4\n", "", "no image is named; write image: "),
    "a component's image that changes": ("demeter:2.0", "demeter", "demeter changes under you; name a version"),
    "a folder of the node": ("cpus: 10", "mounts: {/data: /data}", "the folder /data of a node cannot be mounted"),
    "a shell script": ("cpus: 10", "preload_script: setup.sh", "the shell script setup.sh is not run in pods"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_pods_cannot_do_is_refused_with_a_remedy(name: str) -> None:
    old, new, words = WRONG[name]

    with pytest.raises(UsageError, match=words) as caught:
        a_site(MANIFEST.replace(old, new))
    assert str(caught.value).startswith("targets.cluster: ")


def test_a_profile_on_two_pools_is_refused_because_its_workers_could_not_be_told_apart() -> None:
    with pytest.raises(PlanningError, match=r"sweeps use it on several.*give sweeps\.fold_size a profile of its own"):
        a_spec(MANIFEST.replace("profile: wfrb, ", "profile: standard, "))


def test_a_manifest_without_pools_places_workers_by_the_target_alone() -> None:
    text = MANIFEST[: MANIFEST.index("nodes:")] + "sweeps: {s: {factor: calibration, assets: defi_top5}}\n"
    found = objects.worker_pod(a_site(text), a_spec(text).components["heavy"], "heavy-0", [])["spec"]

    assert found["nodeSelector"] == {"arch": "amd64"}
    assert found["containers"][0]["resources"]["requests"] == {"cpu": "2", "memory": "12288Mi"}


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_two_workers_have_names_that_the_api_takes_and_that_differ(one: str, other: str) -> None:
    site = KubernetesSite("r1")
    names = [objects.pod_name(site, name) for name in (one, other)]
    labels = [objects.label(name) for name in (one, other)]

    for name in names:
        assert len(name) <= 63 and kubernetes_name(name)
    for label in labels:
        assert len(label) <= 63 and label[0].isalnum() and label[-1].isalnum() and label.isascii()
    assert (names[0] == names[1]) == (labels[0] == labels[1]) == (one == other)


def kubernetes_name(name: str) -> bool:
    return name[0].isalnum() and name[-1].isalnum() and set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_a_short_name_stays_as_it_is() -> None:
    assert objects.pod_name(KubernetesSite("r1"), "standard-12") == "scalable-r1-standard-12"
    assert objects.label("heavy_2.x") == "heavy_2.x"
