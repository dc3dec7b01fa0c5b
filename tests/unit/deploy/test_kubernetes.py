"""What ``admin deploy kubernetes`` renders: valid objects that run the sweep, without secrets or open doors."""

from __future__ import annotations

import re
from pathlib import Path
from shlex import split

import kubernetes_validate
import pytest
import yaml

from scalable.cluster.base import DeploymentSpec, WorkerTemplate
from scalable.cluster.kubernetes.objects import KubernetesSite, relay_pod, worker_pod
from scalable.cluster.kubernetes.provider import metrics_port
from scalable.deploy.bounds import bytes_of
from scalable.errors import UsageError
from scalable.manifest import load_text
from scalable.manifest.targets import KubernetesTarget
from scalable.manifest.validation import ManifestError
from tests.helpers.deploy.rendering import (
    DRIVER,
    MANIFEST,
    PASSWORD,
    URL,
    WORKER,
    Network,
    charted,
    driver,
    objects,
    only,
    render,
)

VERSIONS = ("1.31", "1.34")  # the first with all fields that are used as they are now, and a newer one

SQLITE = MANIFEST.replace("${SCALABLE_STORE_URL}", "sqlite:///.scalable/results.db")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("helm", [False, True], ids=["plain", "chart"])
def test_every_object_is_what_the_api_takes(version: str, helm: bool) -> None:
    found = render(helm=helm)
    every = charted(found) if helm else objects(found)
    assert {one["kind"] for one in every} == {
        *("Namespace", "ServiceAccount", "Role", "RoleBinding", "NetworkPolicy", "ResourceQuota", "LimitRange"),
        *("ConfigMap", "Job"),
    }
    for one in every:
        kubernetes_validate.validate(one, version, strict=True)


def test_everything_is_in_the_targets_namespace_and_nothing_holds_for_the_whole_cluster() -> None:
    for one in objects(render()):
        assert one["metadata"].get("namespace", one["metadata"]["name"]) == "lab"
        assert not one["kind"].startswith("Cluster")


def test_the_namespace_refuses_pods_that_are_not_restricted() -> None:
    labels = only(render(), "Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_files_are_applied_in_an_order_that_works() -> None:
    found = render()
    texts = [found.files[name] for name in sorted(found.files) if name.endswith(".yaml")]
    kinds = [next(yaml.safe_load_all(text))["kind"] for text in texts]
    assert kinds == ["Namespace", "ServiceAccount", "Role", "NetworkPolicy", "ResourceQuota", "ConfigMap", "Job"]


def test_the_driver_runs_without_root_capabilities_or_a_file_system_to_change() -> None:
    spec = driver(render())
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] >= 10000
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    assert not [volume for volume in spec["volumes"] if "hostPath" in volume]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()


def test_only_pods_of_the_driver_get_a_token() -> None:
    found = render()
    accounts = [one for one in objects(found) if one["kind"] == "ServiceAccount"]
    assert [one["metadata"]["name"] for one in accounts] == ["scalable-driver", "lab-worker"]
    assert not any(one["automountServiceAccountToken"] for one in accounts)
    assert driver(found)["automountServiceAccountToken"] is True
    assert driver(found)["serviceAccountName"] == "scalable-driver"


def test_workers_have_no_rights_and_the_driver_has_the_least() -> None:
    found = render()
    (subject,) = only(found, "RoleBinding")["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": "scalable-driver", "namespace": "lab"}
    rights = {
        (resource, verb)
        for rule in only(found, "Role", "scalable-driver")["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert rights == {
        *(("pods", verb) for verb in ("create", "get", "list", "watch", "delete")),
        ("pods/log", "get"),
        *(("configmaps", verb) for verb in ("create", "get", "delete")),
        ("secrets", "create"),
        *(("events", verb) for verb in ("list", "watch")),
    }


@pytest.mark.parametrize("image", ["lab/sweeps:latest", "lab/sweeps", "host:5000/sweeps"])
def test_an_image_that_changes_under_you_is_refused_at_its_place(image: str) -> None:
    with pytest.raises(ManifestError, match=r"scalable.yaml:7:\d+  targets.cluster.image: .* changes under you"):
        render(MANIFEST.replace("lab/sweeps:1.4", image))


def test_no_image_tags_that_change_are_rendered() -> None:
    for text in render().files.values():
        assert ":latest" not in text


@pytest.mark.parametrize("helm", [False, True], ids=["plain", "chart"])
def test_values_of_secrets_are_in_no_file(helm: bool) -> None:
    found = render(helm=helm)
    for text in [*found.files.values(), *found.notes, *found.next]:
        assert PASSWORD not in text


def test_secrets_are_referred_to_and_listed_with_the_command_that_makes_them() -> None:
    found = render()
    env = {one["name"]: one for one in driver(found)["containers"][0]["env"]}
    references = {name: one["valueFrom"]["secretKeyRef"] for name, one in env.items() if "secretKeyRef" in str(one)}
    assert references == {
        "SCALABLE_STORE_URL": {"name": "lab-driver", "key": "SCALABLE_STORE_URL"},
        "AWS_SECRET_ACCESS_KEY": {"name": "lab-objects", "key": "secret"},
    }
    assert env["LEVEL"]["value"] == "info"
    made = [step for step in found.next if "create secret" in step]
    assert made == [
        "kubectl --namespace lab create secret generic lab-driver --from-env-file=lab-driver.env"
        "  # lines SCALABLE_STORE_URL=…",
        "kubectl --namespace lab create secret generic lab-objects --from-env-file=lab-objects.env  # lines secret=…",
    ]
    assert not [one for one in objects(found) if one["kind"] == "Secret"]


@pytest.mark.parametrize(
    "change",
    [
        ("${SCALABLE_STORE_URL}", URL),
        ("LEVEL: info", "API_TOKEN: abcdefgh12345"),
        ("LEVEL: info", "LEVEL: ghp_abcdefgh12345abcdefgh12345"),
        ("tracking: http://", f"tracking: http://lab:{PASSWORD}@"),
        ("tracking:", f"# was {URL}\ntracking:"),
        ("artefacts:", f"overlays: {{other: {{store: '{URL}'}}}}\nartefacts:"),
        ("LEVEL: info", f"LEVEL: postgresql://lab:a/{PASSWORD}@db/results"),
        ("tracking:", f"# was postgresql://lab:a/{PASSWORD}@db/results\ntracking:"),
        ("LEVEL: info", "DB_PASS: abcdefgh12345"),
        ("LEVEL: info", "OPENAI_KEY: abcdefgh12345"),
        ("LEVEL: info", "LEVEL: sk-proj-abcdefgh12345-ABCDEFGH"),
        ("tracking:", "# DB_PASSWORD: abcdefgh12345\ntracking:"),
        ("tracking:", "# run it with GH_PAT=abcdefgh12345\ntracking:"),
        ("LEVEL: info", "LEVEL: info  # npm_abcdefgh12345abcdefgh12345abcdefgh"),
        ("tracking:", "# DB_PASS: abcdefgh12345 (old)\ntracking:"),
        ("LEVEL: info", "LEVEL: info  # password: abcdefgh12345 of the db"),
        ("LEVEL: info", "DB_PASSWORD: ${DB_PASSWORD:-abcdefgh12345}"),
        ("LEVEL: info", "LEVEL: postgresql://u:${PW:-abcdefgh12345}@db/x"),
        ("LEVEL: info", "DB_PASSWORD: 'pre${LEVEL:-}abcdefgh12345'"),
        ("LEVEL: info", "DB_PASSWORD: 123456789012345"),
        ("LEVEL: info", "pass: abcdefgh12345"),
        ("LEVEL: info", "DB_PASSWORD: |\n        first\n        abcdefgh12345"),
        ("LEVEL: info", "LEVEL: {secret: lab, key: ghp_abcdefgh12345abcdefgh12345}"),
    ],
    ids=[
        *("store", "env by name", "env by shape", "tracking", "comment", "overlay", "slash", "slash in comment"),
        *("pass", "key", "project key", "YAML in a comment", "NAME=VALUE in a comment", "shape in a comment"),
        *("pair and more in a comment", "pair behind a value"),
        *("default", "default in an address", "around a variable", "number", "pass by itself", "block", "reference"),
    ],
)
def test_a_secret_that_stands_in_the_manifest_is_refused_and_not_shown(change: tuple[str, str]) -> None:
    with pytest.raises(ManifestError) as refused:
        render(MANIFEST.replace(*change))
    assert "write ${NAME} instead" in str(refused.value)
    assert PASSWORD not in str(refused.value)
    assert "abcdefgh12345" not in str(refused.value)
    assert "123456789012345" not in str(refused.value)


def test_prose_about_secrets_in_a_comment_is_no_secret() -> None:
    said = (
        "# the password: ask your administrator; the token comes from ${HF_TOKEN}\n# store_key: {name: lab, key: url}\n"
    )
    assert render(MANIFEST.replace("tracking:", f"{said}tracking:")).files


def test_what_no_policy_names_is_refused_in_both_directions() -> None:
    network = Network.of(render(api_server="10.0.0.1:6443"))
    for pod in (DRIVER, WORKER, {"app": "other"}):
        assert not network.reaches(pod, 8080, address="93.184.216.34")
        assert not network.reaches(pod, 80, address="169.254.169.254")
        assert not network.lets_in(pod, 8786, pod={"app": "other"})


def test_pods_of_runs_reach_each_other_and_look_up_names() -> None:
    network = Network.of(render())
    for pod, other in ((DRIVER, WORKER), (WORKER, DRIVER), (WORKER, WORKER)):
        assert network.reaches(pod, 8786, pod=other)
        assert network.lets_in(other, 8786, pod=pod)
        assert network.reaches(pod, 53, namespace="kube-system", pod={"k8s-app": "kube-dns"}, protocol="UDP")


def test_only_the_driver_reaches_the_store_the_tracking_server_and_the_api() -> None:
    network = Network.of(render(api_server="10.0.0.1:6443"))
    assert network.reaches(DRIVER, 6432, address="10.9.8.7")
    assert network.reaches(DRIVER, 5000, namespace="tools")
    assert network.reaches(DRIVER, 6443, address="10.0.0.1")
    assert not network.reaches(DRIVER, 6432, address="10.9.8.8")
    assert not network.reaches(DRIVER, 6443, address="10.0.0.2")
    assert not network.reaches(DRIVER, 5000, namespace="elsewhere")
    assert not network.reaches(WORKER, 6432, address="10.9.8.7")
    assert not network.reaches(WORKER, 5000, namespace="tools")
    assert not network.reaches(WORKER, 6443, address="10.0.0.1")


def test_workers_reach_the_object_store_and_what_the_target_names() -> None:
    network = Network.of(render())
    for pod in (DRIVER, WORKER):
        assert network.reaches(pod, 443, address="52.216.0.1")
        assert network.reaches(pod, 9000, address="10.20.3.4")
        assert not network.reaches(pod, 9000, address="10.21.3.4")
        assert network.reaches(pod, 443, address="2600:1f00::1")
        for machines_own in ("169.254.169.254", "fd00:ec2::254", "fd20:ce::254", "fd00:42::42"):
            assert not network.reaches(pod, 443, address=machines_own), "a node's credentials are not a pod's"


def test_a_host_name_is_said_to_leave_its_port_open_in_the_notes_and_in_the_file() -> None:
    found = render()
    note = "egress: prices.example.com:443: a NetworkPolicy cannot name it, so this port is open to every address"
    assert note in found.notes
    assert f"# {note}\n" in found.files["30-network.yaml"]
    assert any(one.startswith("the API server: its address is not known here") for one in found.notes)


def test_a_store_whose_address_only_a_secret_knows_leaves_its_port_open_to_the_driver_alone() -> None:
    found = render(env={})
    assert "store: its address is not known here, so port 5432 is open to every address" in found.notes
    assert Network.of(found).reaches(DRIVER, 5432, address="93.184.216.34")
    assert not Network.of(found).reaches(WORKER, 5432, address="93.184.216.34")


def test_an_object_store_of_ones_own_is_reached_at_its_endpoint() -> None:
    text = MANIFEST.replace("LEVEL: info", "AWS_ENDPOINT_URL: http://10.1.1.1:9000")
    network = Network.of(render(text.replace("prices.example.com:443, ", "")))
    assert network.reaches(WORKER, 9000, address="10.1.1.1")
    assert not network.reaches(WORKER, 443, address="52.216.0.1")


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("prices.example.com", "is not a place to connect to; write host:port"),
        ('"10.0.0.0/99:80"', "is not a range of addresses"),
        ("db:0", "is not a place to connect to"),
        ("https://:443", "has no host and port"),
    ],
)
def test_egress_that_names_no_place_is_refused_where_it_stands(written: str, why: str) -> None:
    with pytest.raises(ManifestError, match=rf"scalable.yaml:13:\d+  targets.cluster.egress\[0\]: .*{why}"):
        render(MANIFEST.replace("prices.example.com:443", written))


def test_ipv6_addresses_and_services_beside_the_pods_can_be_named() -> None:
    text = MANIFEST.replace("prices.example.com:443", '"[2001:db8::1]:443", cache:6379')
    found = render(text)
    assert Network.of(found).reaches(WORKER, 443, address="2001:db8::1")
    assert Network.of(found).reaches(WORKER, 6379, pod={"app": "cache"})
    assert any("needs a policy of its own" in note for note in found.notes)


def test_a_port_for_figures_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALABLE_METRICS_PORT", "80")
    with pytest.raises(UsageError, match=r"SCALABLE_METRICS_PORT is '80'; write a port from 1024"):
        metrics_port()


def test_a_prometheus_that_is_named_and_nobody_else_may_ask_the_driver_for_its_figures() -> None:
    found = render(prometheus="monitoring")
    port = driver(found)["containers"][0]["ports"][0]["containerPort"]
    assert {"name": "SCALABLE_METRICS_PORT", "value": str(port)} in driver(found)["containers"][0]["env"]
    noted = only(found, "Job")["spec"]["template"]["metadata"]["annotations"]
    assert (noted["prometheus.io/scrape"], noted["prometheus.io/port"]) == ("true", str(port))
    network = Network.of(found)
    assert network.lets_in(DRIVER, port, pod={"app": "prometheus"}, namespace="monitoring")
    assert not network.lets_in(DRIVER, 8786, pod={"app": "prometheus"}, namespace="monitoring")
    assert not network.lets_in(WORKER, port, pod={"app": "prometheus"}, namespace="monitoring")
    assert not network.lets_in(DRIVER, port, pod={"app": "prometheus"}, namespace="other")
    plain = render()
    assert "ports" not in driver(plain)["containers"][0] and "SCALABLE_METRICS_PORT" not in str(plain.files)
    assert not Network.of(plain).lets_in(DRIVER, port, pod={"app": "prometheus"}, namespace="monitoring")


@pytest.mark.parametrize("helm", [False, True])
def test_a_prometheus_gets_the_right_to_find_drivers_and_no_other(helm: bool) -> None:
    found = render(prometheus="monitoring", helm=helm)
    every = charted(found) if helm else objects(found)
    (role,) = (one for one in every if one["metadata"]["name"] == "scalable-prometheus")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    given = "create rolebinding scalable-prometheus --role scalable-prometheus --serviceaccount monitoring:NAME"
    assert any(given in step for step in found.next)
    plain = render(helm=helm)
    assert "scalable-prometheus" not in str((plain.files, plain.next)), "nobody asked for it"


def test_the_driver_may_hand_certificates_to_workers_and_nobody_may_read_them_through_the_api() -> None:
    rules = only(render(), "Role", "scalable-driver")["rules"]
    (secrets,) = (rule for rule in rules if rule["resources"] == ["secrets"])
    assert "create" in secrets["verbs"]
    assert not {"get", "list", "watch", "*"} & set(secrets["verbs"])


def test_the_quota_is_what_pools_hold_at_their_largest_and_a_driver_and_relay_per_sweep() -> None:
    small = "profiles:\n  wfrb: {request: {cpu: 1, memory: 1GiB}, limit: {cpu: 1, memory: 1GiB}}\n"
    hard = only(render(MANIFEST.replace("profiles:\n", small)), "ResourceQuota")["spec"]["hard"]
    assert hard["requests.cpu"] == f"{6 * 15600 + 6 * 1000}m"
    assert hard["requests.memory"] == f"{(6 * 60 + 6 * 2) * 1024}Mi"
    assert hard["pods"] == str(6 * 15 + 6)  # fifteen pods of 1 CPU fit on 15.6


DISK = "ephemeral-storage"


@pytest.mark.parametrize(
    ("resources", "request_gib", "limit_gib"),
    [
        ("{}", 1, 20),
        ("{limits: {ephemeral-storage: 4Gi}}", 4, 4),  # the API takes the limit for the request
        ("{requests: {ephemeral-storage: 2147483648}, limits: {ephemeral-storage: 30Gi}}", 2, 30),
        ("{requests: {ephemeral-storage: 3Gi}}", 3, None),
    ],
)
def test_the_quota_of_disks_is_what_as_many_pods_ask_for(
    resources: str, request_gib: int, limit_gib: int | None
) -> None:
    text = MANIFEST.replace("    namespace: lab\n", f"    namespace: lab\n    resources: {resources}\n")
    found = render(text)
    hard = only(found, "ResourceQuota")["spec"]["hard"]
    manifest = load_text(text, env={"SCALABLE_STORE_URL": URL}, target="cluster").manifest
    site = KubernetesSite.of(DeploymentSpec.from_manifest(manifest, target_name="cluster"), "r1")
    worker = worker_pod(site, WorkerTemplate("standard"), "standard-0", [])
    pods = {"worker": worker["spec"], "relay": relay_pod(site)["spec"], "driver": driver(found)}
    asked, most = {}, {}
    for name, spec in pods.items():
        stated = spec["containers"][0]["resources"]
        most[name] = stated["limits"].get(DISK)
        asked[name] = stated["requests"].get(DISK, most[name])
    assert (bytes_of(asked["worker"]), most["worker"] and bytes_of(most["worker"])) == (
        request_gib * 2**30, limit_gib and limit_gib * 2**30,
    )  # fmt: skip
    drivers = 3
    workers = int(hard["pods"]) - 2 * drivers
    whole = workers * bytes_of(asked["worker"]) + drivers * (bytes_of(asked["relay"]) + bytes_of(asked["driver"]))
    assert bytes_of(hard[f"requests.{DISK}"]) == whole
    (limit,) = only(found, "LimitRange")["spec"]["limits"]
    if limit_gib is None:
        assert f"limits.{DISK}" not in hard, "it would refuse workers, which state none"
        assert DISK not in limit["default"]
    else:
        filled = workers * bytes_of(most["worker"]) + drivers * (bytes_of(most["relay"]) + bytes_of(most["driver"]))
        assert bytes_of(hard[f"limits.{DISK}"]) == filled
        assert bytes_of(limit["max"][DISK]) == max(bytes_of(one) for one in most.values())
        assert (
            bytes_of(limit["defaultRequest"][DISK]) <= bytes_of(limit["default"][DISK]) <= bytes_of(limit["max"][DISK])
        )


@pytest.mark.parametrize(
    ("amount", "count"),
    [("20Gi", 20 * 2**30), ("1.5k", 1500), ("2E", 2 * 10**18), ("1Ei", 2**60), ("5e3", 5000), ("1500m", 2), ("7", 7)],
)
def test_amounts_are_read_as_kubernetes_reads_them(amount: str, count: int) -> None:
    assert bytes_of(amount) == count


def test_no_container_may_be_larger_than_the_largest_profile() -> None:
    (limit,) = only(render(), "LimitRange")["spec"]["limits"]
    assert limit["max"] == {"cpu": "4", "memory": "24576Mi", DISK: "20480Mi"}
    # of the smallest profile that comes with the package
    assert limit["default"] == {"cpu": "2", "memory": "4096Mi", DISK: "20480Mi"}


def test_memory_is_not_counted_where_a_component_states_none() -> None:
    text = re.sub(r"sweeps:\n.*\n", "components: {a: {cpus: 1}}\ntasks: {t: {component: a, run: 'm:f'}}\n", MANIFEST)
    found = render(text)
    assert not [name for name in only(found, "ResourceQuota")["spec"]["hard"] if "memory" in name]
    assert "memory" not in only(found, "LimitRange")["spec"]["limits"][0]["max"]
    assert "--sweep" not in driver(found)["containers"][0]["command"]


def test_a_lost_driver_is_started_once_more_and_one_that_came_to_its_end_is_not() -> None:
    spec = only(render(), "Job")["spec"]
    assert spec["backoffLimit"] == 1
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    rules = spec["podFailurePolicy"]["rules"]
    assert [one["action"] for one in rules] == ["Ignore", "FailJob"]  # an evicted one may fail at its end
    assert rules[1]["onExitCodes"]["values"] == [1, 2]  # rows that failed get no further attempts
    assert spec["ttlSecondsAfterFinished"] == 86400
    assert "activeDeadlineSeconds" not in spec
    bounded = MANIFEST.replace("namespace: lab", 'namespace: lab\n    walltime: "1-02:00:00"')
    assert only(render(bounded), "Job")["spec"]["activeDeadlineSeconds"] == 26 * 3600


def test_the_driver_reads_the_same_manifest_that_was_deployed() -> None:
    text = MANIFEST.replace("lab/sweeps:1.4", '"${IMAGE}"').replace("namespace: lab", "namespace: ${SPACE}")
    found = render(text, env={"IMAGE": "lab/sweeps:1.4", "SPACE": "lab", "SCALABLE_STORE_URL": URL})
    inside = only(found, "ConfigMap")["data"]["scalable.yaml"]
    env = {one["name"]: one.get("value", "postgresql://x@y/z") for one in driver(found)["containers"][0]["env"]}
    there = load_text(inside, env=env, target="cluster").manifest
    here = load_text(MANIFEST, env=env, target="cluster").manifest
    assert there == here
    assert "${SCALABLE_STORE_URL}" in inside


def test_values_behind_anchors_stay_as_they_are_in_plain_files_and_cannot_be_a_charts() -> None:
    text = MANIFEST.replace("image: lab/sweeps:1.4", "image: &image lab/sweeps:1.4")
    assert only(render(text), "ConfigMap")["data"]["scalable.yaml"] == text
    with pytest.raises(UsageError, match=r"scalable.yaml:7: targets.cluster.image cannot be written out"):
        render(text, helm=True)


def test_the_driver_is_called_with_target_sweep_and_overlay() -> None:
    text = MANIFEST.replace("store:", "overlays: {deep: {sweeps: {calibration: {folds: 7}}}}\nstore:")
    command = driver(render(text, overlay="deep"))["containers"][0]["command"]
    assert command == [
        *("python3", "-P", "-m", "scalable", "run", "scalable.yaml", "--target", "cluster"),
        *("--sweep", "calibration", "--holder", "$(HOLDER)", "--overlay", "deep"),
    ]


def test_the_driver_knows_its_own_pod_and_keeps_off_the_nodes_of_workers() -> None:
    spec = driver(render())
    env = spec["containers"][0]["env"]
    fields = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in env if "fieldRef" in str(one)}
    job = "metadata.labels['batch.kubernetes.io/controller-uid']"
    assert fields == {"POD_NAME": "metadata.name", "POD_IP": "status.podIP", "HOLDER": job}
    (term,) = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["preference"]["matchExpressions"] == [{"key": "pool", "operator": "NotIn", "values": ["compute"]}]


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("    image: lab/sweeps:1.4\n", "", r"targets.cluster.image: no image is named"),
        (
            "namespace: lab",
            "namespace: default",
            r"scalable.yaml:6:\d+  targets.cluster.namespace: quotas and",
        ),
        ("${SCALABLE_STORE_URL}", "sqlite:///r.db", r"scalable.yaml:24:\d+  store: rows in a file would be lost with"),
        ("s3://lab/artefacts", ".scalable/artefacts", r"scalable.yaml:25:\d+  artefacts: .* pods share none"),
        (
            "namespace: lab",
            "namespace: lab\n    kubeconfig: ~/.kube/config",
            "kubeconfig: it is about a driver on",
        ),
        ("${SCALABLE_STORE_URL}", "mysql://h/d", r"store: .*mysql is not supported"),
    ],
    ids=["no image", "default namespace", "sqlite", "folder", "kubeconfig", "unknown store"],
)
def test_what_would_fail_in_the_cluster_is_refused_here_with_its_place(before: str, after: str, why: str) -> None:
    with pytest.raises(ManifestError, match=why):
        render(MANIFEST.replace(before, after))


def test_all_that_is_wrong_comes_at_once() -> None:
    with pytest.raises(ManifestError) as refused:
        render(SQLITE.replace("    image: lab/sweeps:1.4\n", "").replace("s3://lab/artefacts", "kept"))
    assert {issue.code for issue in refused.value.report.errors} == {"no-image", "rows-lost", "no-shared-folder"}


def test_a_store_with_a_default_for_your_machine_comes_from_the_secret_in_the_cluster() -> None:
    text = MANIFEST.replace("${SCALABLE_STORE_URL}", "${SCALABLE_STORE_URL:-sqlite:///.scalable/results.db}")
    env = {one["name"] for one in driver(render(text, env={}))["containers"][0]["env"]}
    assert "SCALABLE_STORE_URL" in env


def test_a_file_on_a_claim_is_a_store_and_the_claim_is_mounted_where_it_lies() -> None:
    claimed = SQLITE.replace("namespace: lab", "namespace: lab\n    claim: lab-state")
    spec = driver(render(claimed))
    assert {"name": "state", "persistentVolumeClaim": {"claimName": "lab-state"}} in spec["volumes"]
    container = spec["containers"][0]
    assert {"name": "state", "mountPath": f"{container['workingDir']}/.scalable"} in container["volumeMounts"]
    with pytest.raises(ManifestError, match="the claim lab-state is mounted at"):
        render(claimed.replace(".scalable/results.db", "results.db"))


@pytest.mark.parametrize(
    ("change", "asked", "why"),
    [
        (("provider: kubernetes", "provider: local"), {}, "no target is on Kubernetes"),
        (("  cluster:", "  here: {provider: local}\n  cluster:"), {"target": "here"}, "--target names one of: cluster"),
        (("", ""), {"target": "nowhere"}, "no target 'nowhere'"),
        (("", ""), {"sweep": "calibraton"}, "write calibration"),
        (
            ("sweeps:\n", "sweeps:\n  other: {factor: timeframe, assets: [X]}\n"),
            {},
            r"--sweep S \(other, cal",
        ),
        (("", ""), {"api_server": "10.0.0.1"}, "is not a place to connect to"),
        (("name: lab", "name: '…'"), {}, "use another name"),
    ],
)
def test_a_call_that_cannot_work_says_what_to_write(change: tuple[str, str], asked: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        render(MANIFEST.replace(*change) if change[0] else MANIFEST, **asked)  # type: ignore[arg-type]


def test_the_first_target_on_kubernetes_is_meant_if_none_is_named() -> None:
    text = MANIFEST.replace("  cluster:", "  here: {provider: local}\n  cluster:")
    assert "--target" in driver(render(text))["containers"][0]["command"]
    assert "cluster" in driver(render(text))["containers"][0]["command"]


def test_a_chart_with_its_own_values_says_what_the_plain_files_say() -> None:
    def told(every: list[dict[str, object]]) -> dict[tuple[str, str], object]:
        return {(one["kind"], one["metadata"]["name"]): one for one in every}  # type: ignore[index,misc]

    plain, chart = told(objects(render())), told(charted(render(helm=True)))
    for found in (plain, chart):  # a Job never changes, so each release has its own
        (job,) = (name for name in found if name[0] == "Job")
        found["Job", ""] = {**found.pop(job), "metadata": None}  # type: ignore[dict-item]
    for found in (plain, chart):  # the manifest's values are quoted in a chart
        config = found["ConfigMap", "lab-manifest"]
        config["data"] = yaml.safe_load(config["data"]["scalable.yaml"])  # type: ignore[index]
    assert chart == plain


def test_no_value_of_an_operator_becomes_more_than_one_value() -> None:
    found = render(helm=True)
    hostile = "lab/x:1\"\n  privileged: true # ' {{ .Release.Name }}"
    values = yaml.safe_load(found.files["values.yaml"]) | {"image": hostile}
    every = charted(type(found)({**found.files, "values.yaml": yaml.safe_dump(values)}, (), ()))
    (job,) = (one for one in every if one["kind"] == "Job")
    (config,) = (one for one in every if one["kind"] == "ConfigMap")
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == hostile
    assert yaml.safe_load(config["data"]["scalable.yaml"])["targets"]["cluster"]["image"] == hostile


def test_pods_fill_no_disk_that_is_not_theirs() -> None:
    spec = only(render(), "Job")["spec"]["template"]["spec"]
    assert spec["containers"][0]["resources"]["limits"]["ephemeral-storage"] == "20Gi"
    assert [one["emptyDir"] for one in spec["volumes"] if "emptyDir" in one] == [{"sizeLimit": "20Gi"}] * 3


def test_a_chart_lets_an_operator_change_what_the_values_name_and_the_workers_follow() -> None:
    found = render(helm=True)
    values = yaml.safe_load(found.files["values.yaml"])
    assert values == {
        "image": "lab/sweeps:1.4",
        "namespace": "lab",
        "sweep": "calibration",
        "driver": {"cpu": "1", "memory": "2048Mi", "secret": "lab-driver"},
    }
    values |= {"image": "lab/sweeps:1.5", "namespace": "lab2", "sweep": "other"}
    changed = {**found.files, "values.yaml": yaml.safe_dump(values)}
    every = charted(type(found)(changed, (), ()))
    (job,) = (one for one in every if one["kind"] == "Job")
    (config,) = (one for one in every if one["kind"] == "ConfigMap")
    assert job["metadata"]["namespace"] == "lab2"
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "lab/sweeps:1.5"
    target = load_text(config["data"]["scalable.yaml"], env={"SCALABLE_STORE_URL": URL}).manifest.targets["cluster"]
    assert isinstance(target, KubernetesTarget)
    assert (target.image, target.namespace) == ("lab/sweeps:1.5", "lab2")


def test_braces_in_the_manifest_are_not_read_as_the_charts() -> None:
    text = MANIFEST.replace("LEVEL: info", 'LEVEL: "{{ .Values.image }}"')
    every = charted(render(text, helm=True))
    (config,) = (one for one in every if one["kind"] == "ConfigMap")
    (job,) = (one for one in every if one["kind"] == "Job")
    assert 'LEVEL: "{{ .Values.image }}"' in config["data"]["scalable.yaml"]
    assert {"name": "LEVEL", "value": "{{ .Values.image }}"} in job["spec"]["template"]["spec"]["containers"][0]["env"]


def test_the_image_has_a_pinned_base_the_versions_of_here_and_a_user_without_rights() -> None:
    text = render().files["Dockerfile"]
    assert re.search(r"^ARG BASE=python:3\.\d+\.\d+-slim$", text, re.MULTILINE)
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    assert re.search(r"^dask==[\d.]+$", text, re.MULTILINE)
    assert re.search(r'^ARG PACKAGES="scalable-sweeps\[kubernetes,finetune,postgres\]==\S+ s3fs"$', text, re.MULTILINE)
    assert "COPY --chown=0:0 . /opt/project" in text
    user = text.index("USER ")
    assert "RUN" not in text[user:]


def test_a_projects_own_requirements_and_wheels_go_into_the_image(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("lightgbm\n", encoding="utf-8")
    (tmp_path / "wheels").mkdir()
    text = render(project=tmp_path).files["Dockerfile"]
    assert "COPY requirements.txt" in text
    assert "--find-links /wheels" in text
    assert "requirements" not in render(project=tmp_path / "wheels").files["Dockerfile"]


@pytest.mark.parametrize("helm", [False, True])
def test_commands_hold_in_folders_with_blanks_in_their_names(helm: bool) -> None:
    steps = render(folder=Path("to deploy"), project=Path("our lab"), helm=helm).next
    words = [word for step in steps for word in split(step, comments=True)]
    assert {"to deploy/Dockerfile", "our lab", "to deploy"} <= set(words)
    assert not {"to", "our"} & set(words)


def test_files_with_secrets_and_results_stay_out_of_the_image(tmp_path: Path) -> None:
    ignored = render(project=tmp_path, folder=tmp_path / "deploy").files["Dockerfile.dockerignore"].splitlines()
    assert {".git", ".scalable", "**/.env.*", "**/*.env", "**/*.pem", "deploy"} <= set(ignored)


def test_what_the_project_keeps_out_of_its_images_stays_out_of_this_one(tmp_path: Path) -> None:
    (tmp_path / ".dockerignore").write_text("secrets/\n!**/*.pem\n", encoding="utf-8")
    ignored = render(project=tmp_path, folder=tmp_path / "deploy").files["Dockerfile.dockerignore"].splitlines()
    assert "secrets/" in ignored
    assert ignored.index("!**/*.pem") < ignored.index("**/*.pem"), "of two patterns the last one holds"
