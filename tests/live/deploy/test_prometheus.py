"""What ``scalable admin deploy prometheus`` writes, as Prometheus' and Alertmanager's own programs judge it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from scalable.deploy.prometheus import Monitoring, rendered
from scalable.observe.alerts import RULES, scaled
from tests.helpers.deploy.prometheus import deployed
from tests.helpers.deploy.rendering import only, render
from tests.tools.errors import ToolError, ToolMissingError
from tests.tools.prometheus import checked


def test_prometheus_and_alertmanager_take_the_files_and_the_rules_pass_their_tests(tmp_path: Path) -> None:
    folder = deployed(tmp_path)
    assert "1 rule files found" in tool(folder, "promtool", "check", "config", "prometheus.yml")
    assert f"{len(RULES)} rules found" in tool(folder, "promtool", "check", "rules", "rules/scalable.yml")
    assert "SUCCESS" in tool(folder, "promtool", "test", "rules", "rules/scalable_test.yml")
    assert "SUCCESS" in tool(folder, "amtool", "check-config", "alertmanager.yml")


@pytest.mark.parametrize("change", ["for_s", "threshold"])
def test_the_rules_tests_fail_for_rules_that_wait_longer_or_ask_for_more(change: str, tmp_path: Path) -> None:
    folder = deployed(tmp_path)
    if change == "for_s":
        wrong = [replace(rule, for_s=rule.for_s + 30) for rule in RULES]
    else:
        wrong = [replace(rule, when=replace(rule.when, threshold=rule.when.threshold * 2 + 100)) for rule in RULES]
    text = rendered(Monitoring(Path("runs"), folder, wrong)).files["rules/scalable.yml"]
    (folder / "rules/scalable.yml").write_text(text, encoding="utf-8")
    with pytest.raises(ToolError) as failed:
        tool(folder, "promtool", "test", "rules", "rules/scalable_test.yml")
    assert {rule.name for rule in RULES} <= set(re.findall(r"alertname: (\w+)", str(failed.value)))


def test_thresholds_of_the_manifest_are_in_the_rules_and_in_their_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    thresholds = "{WorkerMemory: 95%, RunLong: 2h, RetriesUsed: 3, NodeCpu: 0%, ScaleUpSlow: 10s, PendingWork: off}"
    text = "version: 1\nproject: {name: lab}\ntargets: {here: {provider: local}}\n"
    text += f"alerts: {{thresholds: {thresholds}}}\n"
    (tmp_path / "scalable.yaml").write_text(text, encoding="utf-8")
    folder = deployed(tmp_path)
    found = {
        rule["alert"]: rule["expr"]
        for rule in yaml.safe_load((folder / "rules/scalable.yml").read_text())["groups"][0]["rules"]
    }
    assert found["WorkerMemory"].endswith("> 0.95") and found["RunLong"].endswith("> 7200")
    assert found["RetriesUsed"].endswith("> 3") and found["Stuck"].count("> 300") == 1
    assert "PendingWork" not in found and len(found) == len(RULES) - 1
    assert "SUCCESS" in tool(folder, "promtool", "test", "rules", "rules/scalable_test.yml")


def test_rules_in_less_time_are_rules_too(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    text = rendered(Monitoring(Path("runs"), tmp_path, scaled(1 / 150))).files["rules/scalable.yml"]
    (tmp_path / "rules/scalable.yml").write_text(text, encoding="utf-8")
    assert f"{len(RULES)} rules found" in tool(tmp_path, "promtool", "check", "rules", "rules/scalable.yml")


def test_drivers_that_are_pods_are_found_by_their_labels_if_their_namespace_is_named(tmp_path: Path) -> None:
    folder = deployed(tmp_path, "--namespace", "lab")
    _, job = yaml.safe_load((folder / "prometheus.yml").read_text())["scrape_configs"]
    (found,) = job["kubernetes_sd_configs"]
    assert found["namespaces"] == {"names": ["lab"]}
    pod = only(render(prometheus="monitoring"), "Job")["spec"]["template"]
    for wanted in found["selectors"][0]["label"].split(","):
        name, _, value = wanted.partition("=")
        assert pod["metadata"]["labels"][name] == value
    (port,) = pod["spec"]["containers"][0]["ports"]
    described = {
        "name": "lab-calibration-x7k2p",
        "phase": "Running",
        "container_port_name": port["name"],
        "label_app_kubernetes_io_part_of": pod["metadata"]["labels"]["app.kubernetes.io/part-of"],
    }
    others = [{**described, "phase": "Succeeded"}, {**described, "container_port_name": "other"}]
    (kept,) = relabelled(folder, job["relabel_configs"], [described, *others])
    found = {name: kept[name] for name in ("run", "project", "role")}
    assert found == {"run": "lab-calibration-x7k2p", "project": "lab", "role": "driver"}
    assert "that runs in the cluster, as an account that may list pods" in (folder / "README.md").read_text()


def relabelled(folder: Path, rules: list[Any], pods: list[dict[str, str]]) -> list[dict[str, str]]:
    """The labels of those that Prometheus keeps; told of by a file, since Debian's knows no Kubernetes."""
    described = [
        {
            "targets": [f"10.0.0.{at}:9790"],
            "labels": {f"__meta_kubernetes_pod_{name}": text for name, text in pod.items()},
        }
        for at, pod in enumerate(pods)
    ]
    (folder / "pods.json").write_text(json.dumps(described), encoding="utf-8")
    job = {"job_name": "pods", "file_sd_configs": [{"files": ["pods.json"]}], "relabel_configs": rules}
    (folder / "pods.yml").write_text(yaml.safe_dump({"scrape_configs": [job]}), encoding="utf-8")
    told = json.loads(tool(folder, "promtool", "check", "service-discovery", "--timeout=2s", "pods.yml", "pods"))
    return [one["labels"] for one in told if one.get("labels")]


def tool(folder: Path, *command: str) -> str:
    try:
        return checked(*command, folder=folder)
    except ToolMissingError as error:
        pytest.skip(str(error))
