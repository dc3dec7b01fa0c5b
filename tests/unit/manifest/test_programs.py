"""Components of several nodes and processes: what they are, and where they cannot be had."""

from __future__ import annotations

import pytest

from scalable.cluster.base import WorkerTemplate
from scalable.findings import Severity
from scalable.manifest import load_text
from scalable.mpi import NODES, MpiSize
from tests.helpers.manifest.refusals import HEAD, only, refused

MODEL = "components: {model: {nodes: 4, tasks_per_node: 32, cpus: 2, memory: 8GiB}}\n"
KUBERNETES = "k: {provider: kubernetes, image: 'lab/model:1.0'}"


def test_a_component_may_be_a_size_of_nodes_times_processes() -> None:
    component = load_text(HEAD + MODEL, env={}).manifest.components["model"]
    assert component.program == MpiSize(4, 32, 2)
    assert (component.program.ranks, component.program.all_cpus) == (128, 256)
    template = WorkerTemplate.of("model", component, slots=4)
    assert (template.cpus, template.slots, template.threads) == (64, 1, 2), "a program has the whole worker"
    assert template.environment["OMP_NUM_THREADS"] == "2"
    assert template.environment[NODES] == template.runner_environment[NODES] == "4"


def test_an_ordinary_component_is_one_process() -> None:
    component = load_text(HEAD + "components: {c: {cpus: 4}}\n", env={}).manifest.components["c"]
    template = WorkerTemplate.of("c", component, slots=2)
    assert (template.cpus, template.slots, template.threads) == (4, 2, 2)
    assert template.runner_environment == {}


@pytest.mark.parametrize("key", ["nodes", "tasks_per_node"])
@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5"])
def test_counts_are_positive_integers(key: str, value: str) -> None:
    issue = only(refused(HEAD + f"components: {{c: {{{key}: {value}}}}}\n"))
    assert (issue.code, issue.path) == ("bad-value", f"components.c.{key}")
    assert f"{key} must be a positive integer" in issue.message


def test_a_pod_or_machine_is_one_node() -> None:
    text = HEAD + MODEL + f"targets: {{hpc: {{provider: slurm}}, {KUBERNETES}}}\n"
    loaded = load_text(text, env={}, target="hpc")
    [warning] = [finding for finding in loaded.report.warnings if finding.code == "one-node-only"]
    assert warning.path == "components.model.nodes" and "slurm" in warning.remedy
    issue = only(refused(HEAD + MODEL + f"targets: {{{KUBERNETES}}}\n"))
    assert (issue.code, issue.severity) == ("one-node-only", Severity.ERROR)
