"""``scalable admin deploy prometheus``: what Prometheus, Alertmanager and Grafana need to watch sessions.

Prometheus finds sessions by the files that they keep beside their run folders while they live, so nothing is configured
per run. The rules are those that a session applies itself; who has a Prometheus gets the alerts of all sessions there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from scalable.deploy import alert_rules, grafana
from scalable.deploy.document import Document, written
from scalable.deploy.kubernetes import Rendered
from scalable.deploy.network import DRIVERS
from scalable.observe.alerts import RULES, Rule, duration
from scalable.observe.folders import targets_dir

CONFIG, ALERTMANAGER, DASHBOARD, SECRET = "prometheus.yml", "alertmanager.yml", "grafana/scalable.json", "slack-url"
ALERTMANAGER_HERE = "127.0.0.1:9093"
NEEDED = "Prometheus 2.42, Alertmanager 0.25 and Grafana 10, or newer"
TITLE = (
    '{{ .CommonLabels.alertname }} {{ if eq .Status "firing" }}({{ .CommonLabels.severity }}){{ else }}is over{{ end }}'
)
TEXT = (
    "{{ range .Alerts }}{{ .Annotations.summary }} ({{ .Labels.run }})\n"
    '{{ if eq .Status "firing" }}what to do: {{ .Annotations.remedy }}\n{{ end }}{{ end }}'
)

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Monitoring:
    """The targets of monitoring, how often they are asked, and who is told."""

    runs: Path
    folder: Path
    """Where the files go."""
    rules: Sequence[Rule] = RULES
    alertmanager: str = ALERTMANAGER_HERE
    namespace: str | None = None
    """Of a cluster, in which drivers run as pods."""
    every_s: float = 5  # the figures are as old at most; a worker's memory can grow by gigabytes in a minute
    gather_s: float = 10  # how long the first message waits for others of its kind


def rendered(watching: Monitoring) -> Rendered:
    files = {
        CONFIG: prometheus_file(watching),
        alert_rules.FILE: alert_rules.rules_file(watching.rules),
        alert_rules.TEST_FILE: alert_rules.tests_file(watching.rules),
        ALERTMANAGER: alertmanager_file(watching),
        DASHBOARD: grafana.rendered(),
    }
    steps, notes = next_steps(watching), in_cluster(watching.namespace)
    files["README.md"] = readme(watching, steps, notes)
    return Rendered(files, notes, steps)


def prometheus_file(watching: Monitoring) -> str:
    every = duration(watching.every_s)
    sessions = {"files": [str(targets_dir(watching.runs.absolute()) / "*.json")], "refresh_interval": every}
    settings = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": [alert_rules.FILE],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [watching.alertmanager]}]}]},
        "scrape_configs": [
            {"job_name": "scalable", "file_sd_configs": [sessions]},
            *([drivers_in(watching.namespace)] if watching.namespace else []),
        ],
    }
    comment = "Sessions say themselves where their figures are, each in a file that is there while it lives."
    return written([Document(settings, (comment,))])


def drivers_in(namespace: str) -> Object:
    """Return the job that finds drivers which are pods by their labels, and names them by their pods."""
    pods = {"role": "pod", "label": ",".join(f"{name}={value}" for name, value in DRIVERS["matchLabels"].items())}
    meta = "__meta_kubernetes_pod"
    return {
        "job_name": "scalable-kubernetes",
        "kubernetes_sd_configs": [{"role": "pod", "namespaces": {"names": [namespace]}, "selectors": [pods]}],
        "relabel_configs": [
            {"source_labels": [f"{meta}_container_port_name"], "regex": "metrics", "action": "keep"},
            {"source_labels": [f"{meta}_phase"], "regex": "Running", "action": "keep"},
            {"source_labels": [f"{meta}_name"], "target_label": "run"},
            {"source_labels": [f"{meta}_label_app_kubernetes_io_part_of"], "target_label": "project"},
            {"target_label": "role", "replacement": "driver"},
        ],
    }


def in_cluster(namespace: str | None) -> tuple[str, ...]:
    """Return what a person should know who wants drivers to be found that are pods."""
    if namespace is None:
        return ()
    where = f"drivers in {namespace} are found by a Prometheus that runs in the cluster, as an account that may list"
    return (f"{where} pods there; Debian's is built without Kubernetes, and its promtool refuses {CONFIG}",)


def alertmanager_file(watching: Monitoring) -> str:
    """Return settings that send to Slack, or whatever takes its messages; the secret address is in its own file."""
    slack = {
        "api_url_file": str(watching.folder.absolute() / SECRET),
        "send_resolved": True,
        "title": TITLE,
        "text": TEXT,
    }
    pages = {"matchers": ['severity="page"'], "group_wait": "0s", "repeat_interval": "15m", "receiver": "people"}
    settings = {
        "route": {
            "receiver": "people",
            "group_by": ["alertname", "run"],
            "group_wait": duration(watching.gather_s),
            "group_interval": duration(watching.gather_s * 6),
            "repeat_interval": "4h",
            "routes": [pages],
        },
        "inhibit_rules": [
            {
                "source_matchers": ['alertname="CostOverBudget"'],
                "target_matchers": ['alertname="CostNearBudget"'],
                "equal": ["run"],
            }
        ],
        "receivers": [{"name": "people", "slack_configs": [slack]}],
    }
    comments = (
        f"The incoming webhook's address is the only line of {slack['api_url_file']}.",
        "What is severe (severity: page) is told at once and again after 15 minutes.",
    )
    return written([Document(settings, comments)])


def next_steps(watching: Monitoring) -> tuple[str, ...]:
    data = watching.runs.parent

    def at(name: str, folder: Path = watching.folder) -> str:
        return quote(str(folder / name))

    return (
        f"promtool check config {at(CONFIG)}",
        f"promtool test rules {at(alert_rules.TEST_FILE)}",
        f"(umask 077; cat > {at(SECRET)})  # paste the address of your incoming webhook, then Ctrl-D",
        f"prometheus-alertmanager --config.file={at(ALERTMANAGER)} --storage.path={at('alertmanager', data)} "
        f"--web.listen-address={watching.alertmanager}",
        f"prometheus --config.file={at(CONFIG)} --storage.tsdb.path={at('prometheus', data)} "
        "--web.listen-address=127.0.0.1:9090",
    )


def readme(watching: Monitoring, steps: Sequence[str], notes: Sequence[str]) -> str:
    lines = ["# Watching sessions with Prometheus", ""]
    lines += [f"Every session that keeps its runs in `{watching.runs.absolute()}` is found by itself."]
    lines += [f"Needs {NEEDED}.", "", *(f"To know: {note}.\n" for note in notes), "```sh", *steps, "```", ""]
    lines += [f"In Grafana: Dashboards, New, Import, `{DASHBOARD}`; choose your Prometheus as its data source.", ""]
    lines += ["| alert | when | for | severity | what to do |", "|---|---|---|---|---|"]
    lines += [
        f"| {rule.name} | `{rule.promql()}` | {duration(rule.for_s)} | {rule.severity} | {rule.remedy} |"
        for rule in watching.rules
    ]
    return "\n".join([*lines, ""])
