"""What ``scalable deploy prometheus`` writes, as Prometheus' and Alertmanager's own programs judge it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from shlex import split
from typing import Any

import pytest
import yaml

from scalable.cli.main import main
from scalable.deploy.prometheus import Watching, rendered
from scalable.observe.alerts import RULES, scaled
from tests.deploy.rendering import only, render
from tests.tools.errors import ToolError, ToolMissingError
from tests.tools.prometheus import checked


def test_prometheus_and_alertmanager_take_the_files_and_the_rules_pass_their_tests(tmp_path: Path) -> None:
    folder = deployed(tmp_path)
    assert "1 rule files found" in tool(folder, "promtool", "check", "config", "prometheus.yml")
    assert f"{len(RULES)} rules found" in tool(folder, "promtool", "check", "rules", "rules/scalable.yml")
    assert "SUCCESS" in tool(folder, "promtool", "test", "rules", "rules/scalable_test.yml")
    assert "SUCCESS" in tool(folder, "amtool", "check-config", "alertmanager.yml")


def test_commands_hold_in_folders_with_blanks_in_their_names() -> None:
    steps = rendered(Watching(Path("our runs/runs"), Path("to watch"))).next
    words = [word for step in steps for word in split(step, comments=True)]
    assert "to watch/prometheus.yml" in words and "--storage.tsdb.path=our runs/prometheus" in words


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_is_tested_before_its_time_after_it_and_when_it_is_over(rule: Any) -> None:
    watching = Watching(Path("runs"), Path("watch"), [rule])
    tests = yaml.safe_load(rendered(watching).files["rules/scalable_test.yml"])["tests"]
    looks = [
        {float(look["eval_time"].rstrip("s")): bool(look["exp_alerts"]) for look in test["alert_rule_test"]}
        for test in tests
    ]
    assert (rule.and_ is not None) == any(not any(look.values()) for look in looks), "one condition is not enough"
    for look in (look for look in looks if any(look.values())):
        first = min(at for at, fires in look.items() if fires)
        assert look[first - 15] is False, "silent until the last sample before its time is over"
        assert look[max(look)] is False, "over in the end"
        assert not rule.for_s or first - rule.for_s - 15 in look, "silent before the figure crosses its threshold"


@pytest.mark.parametrize("change", ["for_s", "threshold"])
def test_the_rules_tests_fail_for_rules_that_wait_longer_or_ask_for_more(change: str, tmp_path: Path) -> None:
    folder = deployed(tmp_path)
    if change == "for_s":
        wrong = [replace(rule, for_s=rule.for_s + 30) for rule in RULES]
    else:
        wrong = [replace(rule, when=replace(rule.when, threshold=rule.when.threshold * 2 + 100)) for rule in RULES]
    text = rendered(Watching(Path("runs"), folder, wrong)).files["rules/scalable.yml"]
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


@pytest.mark.parametrize(
    ("policy", "stuck", "long"),
    [
        ("after: 20m, walltime: 3h", "> 1200", "> 10800"),
        ("after: 1m, walltime: 1m", "> 300", "> 600"),
    ],
)
def test_what_the_manifest_lets_a_run_do_is_no_alert_before(
    policy: str, stuck: str, long: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "version: 1\nproject: {name: lab}\ntargets: {here: {provider: local}}\n"
    text += f"policies: {{stuck: {{{policy}}}}}\n"
    (tmp_path / "scalable.yaml").write_text(text, encoding="utf-8")
    groups = yaml.safe_load((deployed(tmp_path) / "rules/scalable.yml").read_text())["groups"]
    found = {rule["alert"]: rule["expr"] for rule in groups[0]["rules"]}
    assert stuck in found["Stuck"] and found["RunLong"].endswith(long)


def test_rules_in_less_time_are_rules_too(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    text = rendered(Watching(Path("runs"), tmp_path, scaled(1 / 150))).files["rules/scalable.yml"]
    (tmp_path / "rules/scalable.yml").write_text(text, encoding="utf-8")
    assert f"{len(RULES)} rules found" in tool(tmp_path, "promtool", "check", "rules", "rules/scalable.yml")


def test_sessions_are_found_where_they_say_where_they_are(tmp_path: Path) -> None:
    settings = yaml.safe_load((deployed(tmp_path, "--runs", "elsewhere") / "prometheus.yml").read_text())
    (job,) = settings["scrape_configs"]
    assert job["file_sd_configs"][0]["files"] == [str(Path.cwd() / "elsewhere/targets/*.json")]
    assert settings["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] == ["127.0.0.1:9093"]


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


def test_the_secret_address_is_named_by_its_file_only(tmp_path: Path) -> None:
    folder = deployed(tmp_path)
    (receiver,) = yaml.safe_load((folder / "alertmanager.yml").read_text())["receivers"]
    (slack,) = receiver["slack_configs"]
    assert slack["api_url_file"] == str(folder.absolute() / "slack-url") and "api_url" not in slack


def test_files_that_are_there_are_replaced_only_when_told_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = deployed(tmp_path)
    (folder / "prometheus.yml").write_text("mine", encoding="utf-8")
    assert main(["deploy", "prometheus", "--output", str(folder)]) == 2
    assert "--force replaces" in capsys.readouterr().err
    assert (folder / "prometheus.yml").read_text(encoding="utf-8") == "mine"
    deployed(tmp_path, "--force", "--alertmanager", "alerts.lab:9093")
    assert "alerts.lab:9093" in (folder / "prometheus.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--helm"], "--helm is about Kubernetes; write scalable deploy kubernetes --helm"),
        (["--sweep", "s"], "--sweep is about Kubernetes and Airflow"),
        (["--alertmanager", "http://alerts:9093"], "write HOST:PORT, e.g. 127.0.0.1:9093"),
        (["--alertmanager", "alerts"], "write HOST:PORT, e.g. 127.0.0.1:9093"),
        (["--namespace", "Lab_1"], "--namespace Lab_1 is no namespace; write its name, e.g. --namespace monitoring"),
        (["--prometheus", "lab"], "--prometheus is about Kubernetes"),
        (["--runs", __file__], "is a file; name the folder in which runs are recorded"),
        (["nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_wrong_words_are_refused_with_what_to_write(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["deploy", "prometheus", *words, "--output", str(tmp_path / "watch")]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "watch").exists()


def deployed(tmp_path: Path, *words: str) -> Path:
    folder = tmp_path / "watch"
    assert main(["deploy", "prometheus", "--output", str(folder), *words]) == 0
    return folder


def tool(folder: Path, *command: str) -> str:
    try:
        return checked(*command, folder=folder)
    except ToolMissingError as error:
        pytest.skip(str(error))
