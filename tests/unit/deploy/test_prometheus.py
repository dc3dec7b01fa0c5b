"""What ``scalable admin deploy prometheus`` writes, as Prometheus' and Alertmanager's own programs judge it."""

from __future__ import annotations

from pathlib import Path
from shlex import split
from typing import Any

import pytest
import yaml

from scalable.cli.main import main
from scalable.deploy.prometheus import Monitoring, rendered
from scalable.observe.alerts import RULES
from tests.helpers.deploy.prometheus import deployed


def test_commands_hold_in_folders_with_blanks_in_their_names() -> None:
    steps = rendered(Monitoring(Path("our runs/runs"), Path("to watch"))).next
    words = [word for step in steps for word in split(step, comments=True)]
    assert "to watch/prometheus.yml" in words and "--storage.tsdb.path=our runs/prometheus" in words


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_is_tested_before_its_time_after_it_and_when_it_is_over(rule: Any) -> None:
    watching = Monitoring(Path("runs"), Path("watch"), [rule])
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


def test_sessions_are_found_where_they_say_where_they_are(tmp_path: Path) -> None:
    settings = yaml.safe_load((deployed(tmp_path, "--runs", "elsewhere") / "prometheus.yml").read_text())
    (job,) = settings["scrape_configs"]
    assert job["file_sd_configs"][0]["files"] == [str(Path.cwd() / "elsewhere/targets/*.json")]
    assert settings["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] == ["127.0.0.1:9093"]


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
    assert main(["admin", "deploy", "prometheus", "--output", str(folder)]) == 2
    assert "--force replaces" in capsys.readouterr().err
    assert (folder / "prometheus.yml").read_text(encoding="utf-8") == "mine"
    deployed(tmp_path, "--force", "--alertmanager", "alerts.lab:9093")
    assert "alerts.lab:9093" in (folder / "prometheus.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--helm"], "--helm is about Kubernetes; write scalable admin deploy kubernetes --helm"),
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
    assert main(["admin", "deploy", "prometheus", *words, "--output", str(tmp_path / "watch")]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "watch").exists()
