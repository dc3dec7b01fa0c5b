"""The JSON Schema accepts what the loader accepts, and points at unknown keys and wrong types."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from scalable.manifest.models import json_schema
from scalable.manifest.tree import compose, to_python
from tests.helpers.paths import ROOT

GOOD_FILES = [
    *sorted((ROOT / "examples").glob("**/scalable.yaml")),
    *sorted((ROOT / "src" / "scalable" / "cli" / "templates").glob("*.yaml")),
]
HEAD = "version: 1\nproject: {name: test}\n"


@cache
def validator() -> Draft202012Validator:
    return Draft202012Validator(json_schema())


def complaints(text: str) -> list[str]:
    values = to_python(compose(text, "scalable.yaml"))
    return [f"{error.json_path}: {error.message}" for error in validator().iter_errors(values)]


def test_it_is_a_schema_of_the_2020_draft() -> None:
    schema = json_schema()

    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]


def test_there_are_an_example_and_a_template_to_check() -> None:
    assert len(GOOD_FILES) >= 2


@pytest.mark.parametrize("path", GOOD_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_shipped_manifests_are_valid(path: Path) -> None:
    assert complaints(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "targets: {a: {provider: local, max_workers: 4}}",
        "targets: {a: {provider: nomad, anything: 5}}",
        "targets:\n  a:\n    provider: local\n    max_workers: ${N}\n    processes: ${P:-true}",
        "components:\n  a:\n    memory: ${MEM}\n    cpus: ${N}",
        "nodes:\n  a:\n    cpu: ${CPU}\n    memory: 8GiB\n    price: ${PRICE}",
        "nodes: {a: {cpu: 500m, memory: 20G, price: EUR 60/month}}",
        "budget: {monthly: EUR 200, price: 0.16 EUR/h}",
        "pools: {a: {node: b, max: 2, provision: 2h30m, idle: 04:00:00}}",
        "policies:\n  fork: ${FORK:-deny}\n  margins: {ram: 40%, cpu: 0.15}\n  stuck: {after: 2h30}",
        "policies: {fork: {policy: warn, allow: [torch.utils.data], grpc: {support: true, poll: poll}}}",
        "policies: {fork: {allow: torch.utils.data}}",
        "scenarios: {a: {workloads: one}, b: {workloads: [one, two]}, c: {workloads: {one: 2}}}",
        "groups: {a: ONE, b: [ONE, TWO]}",
        "sweeps: {a: {factor: own, variants: [1, x, 2.5, true], assets: [A], run_minutes: {p50: 1, p95: 2}}}",
        "profiles: {a: {request: {cpu: 1, memory: 1G}, limit: {cpu: 1, memory: 1G}, peak: {typical: 1G, highest: 1G}}}",
    ],
)
def test_ways_to_write_it_are_valid(text: str) -> None:
    assert complaints(HEAD + text) == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("nonsense: 1", "$:"),
        ("pools: {a: {node: b, max: 2, size: 3}}", "$.pools.a:"),
        ("nodes: {a: {cpu: 1, memory: 1GiB, allocatable: {cpu: 1, memory: 1GiB, disk: 5}}}", "$.nodes.a"),
        ("policies: {margin: {ram: 40%}}", "$.policies:"),
        ("policies: {fork: {polcy: deny}}", "$.policies.fork"),
        ("sweeps: {a: {factor: timeframe, assets: defi_top5, fold: 5}}", "$.sweeps.a:"),
        ("components: {a: {cpu: 5}}", "$.components.a:"),
        ("budget: {monthly: 200 EUR, yearly: 5}", "$.budget"),
        ("project: {name: x, nam: y}", "$.project:"),
    ],
)
def test_an_unknown_key_is_pointed_at(text: str, place: str) -> None:
    found = complaints("version: 1\n" + text if text.startswith("project") else HEAD + text)

    assert any(complaint.startswith(place) for complaint in found), found


@pytest.mark.parametrize(
    "text",
    [
        "targets: {a: {provider: local, max_workers: 0}}",
        "targets: {a: {provider: local, max_workers: four}}",
        "targets: {a: {max_workers: 4}}",
        "components: {a: {memory: 8}}",
        "components: {a: {memory: lots}}",
        "nodes: {a: {cpu: -1, memory: 8GiB}}",
        "nodes: {a: {memory: 8GiB}}",
        "nodes: {a: {cpu: 1, memory: 8GiB, price: 5}}",
        "profiles: {a: {request: {cpu: 1, memory: 1GiB}, limit: {cpu: 1, memory: 1GiB}, peak: 2}}",
        "sweeps: {a: {factor: timeframe, assets: defi_top5, run_minutes: 0}}",
        "policies: {fork: maybe}",
        "policies: {fork: {policy: maybe}}",
        "policies: {fork: {grpc: on}}",
        "budget: {monthly: 200}",
        "targets: [a]",
    ],
)
def test_a_wrong_value_is_invalid(text: str) -> None:
    assert complaints(HEAD + text)


@pytest.mark.parametrize("text", ["version: 1", "project: {name: x}", "version: 2\nproject: {name: x}"])
def test_version_and_project_are_required(text: str) -> None:
    assert complaints(text)


def test_fields_are_described_for_editors() -> None:
    parts: dict[str, Any] = json_schema()["$defs"]

    assert "paid" in parts["Pool"]["properties"]["idle"]["description"]
