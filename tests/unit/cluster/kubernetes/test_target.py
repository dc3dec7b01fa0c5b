"""What may be written for a target on Kubernetes: what is wrong is named with its place and a remedy."""

# ruff: noqa: E501 - the table of cases is read line by line
from __future__ import annotations

import pytest

from scalable.findings import Finding
from scalable.manifest import ManifestError, load_text
from scalable.manifest.targets import KubernetesTarget, SecretKey, unpinned

HEAD = "version: 1\nproject: {name: test}\n"

WRONG = {
    "latest": ("image: 'ftf:latest'", "targets.t.image", "the image ftf:latest changes under you", "name a version or a digest, e.g. NAME:1.0"),
    "no tag": ("image: registry.example.com/ftf", "targets.t.image", "changes under you", "name a version or a digest"),
    "a port is no tag": ("image: 'registry:5000/ftf'", "targets.t.image", "changes under you", "name a version"),
    "half a digest": ("image: 'ftf@sha256:12'", "targets.t.image", "has no valid digest", "name a version or a digest"),
    "a namespace with capitals": ("namespace: FTF", "targets.t.namespace", "'FTF' cannot be the name of a namespace", "lower-case"),
    "a variable with a dash": ("env: {A-B: 1}", "targets.t.env.A-B", "'A-B' cannot be the name of a variable", "underscores"),
    "a secret without a key": ("env: {A: {secret: s}}", "targets.t.env.A", "no variable's value", "write a text, or {secret: NAME, key: KEY}"),
    "a list as a variable": ("env: {A: [1]}", "targets.t.env.A", "no variable's value", "write a text"),
    "a walltime in words": ("walltime: 4h", "targets.t.walltime", "'4h' is not a walltime", "HH:MM:SS"),
    "an amount in words": ("resources: {limits: {memory: much}}", "targets.t.resources.limits.memory", "'much' is no amount of memory", "memory: 8Gi"),
    "an unknown part of resources": ("resources: {limit: {}}", "targets.t.resources.limit", "unknown key 'limit'", "remove it"),
    "an unknown effect": ("tolerations: [{key: a, effect: NoRun}]", "targets.t.tolerations[0].effect", "'NoRun' is not one of", "NoSchedule"),
    "a toleration of nothing": ("tolerations: [{effect: NoSchedule}]", "targets.t.tolerations[0]", "without a key needs operator: Exists", "key: NAME"),
    "a toleration of a value that only exists": ("tolerations: [{key: a, operator: Exists, value: b}]", "targets.t.tolerations[0]", "Exists takes no value", "operator: Equal"),
    "code on a shared folder": ("code: shared", "targets.t.code", "'shared' is not one of", "'image'"),
}  # fmt: skip


def issues(text: str) -> tuple[Finding, ...]:
    with pytest.raises(ManifestError) as caught:
        load_text(f"{HEAD}targets: {{t: {{provider: kubernetes, {text}}}}}\n", env={})
    return tuple(caught.value.report.errors)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_with_its_place_and_a_remedy(name: str) -> None:
    text, path, message, remedy = WRONG[name]
    found = issues(text)

    assert len(found) == 1, found
    assert (found[0].path, message in found[0].message, remedy in found[0].remedy) == (path, True, True), found[0]


def test_a_target_needs_no_more_than_its_provider_to_be_planned_for() -> None:
    found = load_text(f"{HEAD}targets: {{t: {{provider: kubernetes}}}}\n", env={}).manifest.targets["t"]

    assert isinstance(found, KubernetesTarget)
    assert (found.namespace, found.python, found.code, found.image) == ("default", "python3", "image", None)


def test_a_value_of_the_environment_is_a_text_or_the_name_of_a_secret() -> None:
    text = f"{HEAD}targets: {{t: {{provider: kubernetes, env: {{A: 1, B: {{secret: s, key: k}}}}}}}}\n"
    found = load_text(text, env={}).manifest.targets["t"]

    assert isinstance(found, KubernetesTarget)
    assert found.env == {"A": 1, "B": SecretKey(secret="s", key="k")}


@pytest.mark.parametrize(
    "image", ["ftf:1", "registry:5000/a/ftf:2026-11", f"ftf@sha256:{'0' * 64}", f"ftf:1@sha256:{'a' * 64}"]
)
def test_a_version_or_a_digest_pins_an_image(image: str) -> None:
    assert unpinned(image) == ""


POOLS = """
nodes: {m: {cpu: 16, memory: 64GiB, price: 1 EUR/h}}
pools: {permanent: {node: m, count: 1, used: {cpu: 1, memory: 1GiB}}, compute: {node: m, max: 6}}
"""


def warned(targets: str, pools: str = POOLS) -> list[str]:
    found = load_text(f"{HEAD}targets: {{t: {{{targets}}}}}\n{pools}", env={}).report.warnings
    return [f"{one.path}: {one.message}; {one.remedy}" for one in found if one.code == "pool-unlabelled"]


def test_work_that_nothing_keeps_off_the_permanent_nodes_is_warned_about() -> None:
    assert warned("provider: kubernetes") == [
        "pools.compute: nothing keeps workers of the target t on the pool compute: its nodes have no labels; "
        "write labels: {pool: compute} here, as its nodes have them"
    ]
    assert warned("provider: slurm") == []


def test_labels_of_the_pool_or_a_selector_of_the_target_keep_work_where_it_belongs() -> None:
    assert warned("provider: kubernetes, node_selector: {pool: compute}") == []
    assert warned("provider: kubernetes", POOLS.replace("max: 6", "max: 6, labels: {pool: compute}")) == []


def test_a_selector_of_the_target_cannot_tell_two_pools_apart() -> None:
    two = POOLS.replace("max: 6}", "max: 6}, large: {node: m, max: 2, labels: {pool: large}}")

    assert len(warned("provider: kubernetes, node_selector: {pool: compute}", two)) == 1
