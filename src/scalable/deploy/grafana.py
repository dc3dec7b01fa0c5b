"""The Grafana dashboard: what an operator watches, from the metrics of all sessions that one Prometheus scrapes.

It is imported as it is: the data source is a variable, and so are project and run. Everything it asks is PromQL over
the metrics of ``scalable.observe.metrics``; shares are of limits, so that one axis serves workers of any size.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

UID = "scalable-sweeps"
SCHEMA = 38  # Grafana 10 and newer read it as it is
COLUMNS = 24  # of Grafana's grid
HALF, SMALL = COLUMNS // 2, COLUMNS // 6
TALL, LOW = 8, 4
MOST = 20  # series in a panel by worker or node: those that matter are the highest
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WHERE = '{project=~"$project", run=~"$run"}'

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    why: str
    """What a reader should see in it."""
    queries: tuple[tuple[str, str], ...]
    """PromQL and legend; ``@`` stands for the run that is looked at."""
    unit: str = "short"
    kind: str = "timeseries"
    limit: float | None = None
    """Drawn as a line, or where a figure turns red."""
    maximum: float | None = None


def figure(title: str, why: str, query: str, unit: str = "short", limit: float | None = None) -> Panel:
    return Panel(title, why, ((query, ""),), unit, "stat", limit)


def highest(of: str, expression: str) -> str:
    """Return a query for the highest figure: driver and workers both tell it."""
    return f"topk({MOST}, max by ({of}) ({expression}))"


def by_worker(expression: str) -> tuple[str, str]:
    """Return the query and its legend; workers of different runs often have the same name."""
    return highest("run, worker", expression), "{{worker}} of {{run}}"


PANELS = (
    figure(
        "Rows stored",
        "Of those that the sweeps expect.",
        'sum(scalable_rows@{state=~"done|there"}) / sum(scalable_rows_expected@)',
        "percentunit",
    ),
    figure("Workers", "That are there.", 'sum(scalable_workers@{state=~"busy|idle"})'),
    figure("Work waiting", "For a worker, or for room to start one.", "sum(scalable_pending_tasks@)"),
    figure("Retries", "Attempts that had to be repeated.", "sum(scalable_retries_total@)", limit=1),
    Panel("Spent", "By these runs.", (("sum by (currency) (scalable_cost_total@)", "{{currency}}"),), "none", "stat"),
    figure(
        "Alerts",
        "Firing now.",
        'count(ALERTS@{alertstate="firing"}) or vector(0)',
        limit=1,
    ),
    Panel(
        "Sweep progress",
        "Rows by what became of them, and how many are expected.",
        (
            ("sum by (sweep, state) (scalable_rows@)", "{{sweep}} {{state}}"),
            ("sum by (sweep) (scalable_rows_expected@)", "{{sweep}} expected"),
        ),
    ),
    Panel(
        "Active workers",
        "By kind and by what they do.",
        (("sum by (tag, state) (scalable_workers@)", "{{tag}} {{state}}"),),
    ),
    Panel(
        "Memory of workers against their limit",
        f"The {MOST} nearest to it. Above 0.8 there is an alert; at 1 the worker is killed.",
        (by_worker("scalable_worker_memory_bytes@ / scalable_worker_memory_limit_bytes@"),),
        "percentunit",
        limit=0.8,
        maximum=1,
    ),
    Panel(
        "Memory by worker",
        f"The {MOST} largest.",
        (by_worker("scalable_worker_memory_bytes@"),),
        "bytes",
    ),
    Panel(
        "CPU of workers against their limit",
        f"The {MOST} nearest to it. A pool that stays at 1 is slowed down by its limit.",
        (by_worker("scalable_worker_cpu_cores@ / scalable_worker_cpu_limit_cores@"),),
        "percentunit",
        limit=0.9,
        maximum=1,
    ),
    Panel(
        "Nodes",
        f"CPU and memory in use by everything on them; the {MOST} fullest.",
        (
            (highest("node", "scalable_node_cpu_cores@ / scalable_node_cpu_capacity_cores@"), "{{node}} CPU"),
            (highest("node", "scalable_node_memory_bytes@ / scalable_node_memory_capacity_bytes@"), "{{node}} memory"),
        ),
        "percentunit",
        maximum=1,
    ),
    Panel(
        "Work waiting and running",
        "Work that waits while workers are idle does not fit them.",
        (
            ("sum by (tag) (scalable_pending_tasks@)", "{{tag}} waiting for a worker"),
            ("sum by (tag, state) (scalable_tasks@)", "{{tag}} {{state}}"),
        ),
    ),
    Panel(
        "Scaling",
        "The age of the oldest worker that was asked for and is not there, beside how many are there.",
        (
            ("max by (tag) (scalable_scale_up_seconds@)", "{{tag}} waits for a worker"),
            ("max by (tag) (scalable_run_seconds@)", "{{tag}} oldest run under way"),
        ),
        "s",
    ),
    Panel(
        "Idle time of workers",
        f"The {MOST} longest since the last sign of progress. At 300 s without a row a worker is stuck.",
        (by_worker("finetune_pod_idle_seconds@"),),
        "s",
        limit=300,
    ),
    Panel(
        "Rows stored per minute",
        "By kind of worker.",
        (("sum by (tag) (max by (run, worker, tag) (finetune_rows_persisted_per_min@))", "{{tag}}"),),
    ),
    Panel(
        "Cost and budget",
        "This run, and the month so far against its budget.",
        (
            ("sum by (currency) (scalable_cost_total@)", "runs shown, {{currency}}"),
            ("max by (currency) (scalable_cost_month_total@)", "month, {{currency}}"),
            ("max by (currency) (scalable_budget_month@)", "budget of the month, {{currency}}"),
        ),
        "none",
    ),
    Panel(
        "Retries by cause",
        "A cause that grows is one that retrying does not cure.",
        (("sum by (tag, cause) (scalable_retries_total@)", "{{tag}}: {{cause}}"),),
    ),
    Panel(
        "Incidents",
        "By kind; scalable incidents shows each with its evidence.",
        (("sum by (kind) (scalable_incidents_total@)", "{{kind}}"),),
    ),
    Panel(
        "Dependencies and pauses",
        "1 is up. A session whose store is down keeps its rows until it is back.",
        (
            ("min by (dependency) (scalable_dependency_up@)", "{{dependency}}"),
            ("1 - max(scalable_paused@)", "not paused"),
        ),
        "none",
        maximum=1,
    ),
    Panel(
        "Alerts firing",
        "As Prometheus evaluates them; Alertmanager tells people.",
        (('sum by (alertname, severity) (ALERTS@{alertstate="firing"})', "{{alertname}} ({{severity}})"),),
    ),
)


def rendered() -> str:
    return json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n"


def dashboard() -> Object:
    return {
        "uid": UID,
        "title": "scalable: sweeps",
        "description": "Progress, workers, cost and trouble of sessions.",
        "tags": ["scalable"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "templating": {"list": variables()},
        "annotations": {"list": []},
        "panels": list(placed()),
    }


def variables() -> list[Object]:
    """Return data source, project and run, each chosen from what there is."""
    chosen = {"selected": True, "text": "All", "value": "$__all"}
    entries: list[Object] = [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    ]
    for name, of in (("project", ""), ("run", '{project=~"$project"}')):
        query = f"label_values(scalable_session_info{of}, {name})"
        entries.append(
            {
                "name": name,
                "label": name.capitalize(),
                "type": "query",
                "datasource": SOURCE,
                "definition": query,
                "query": {"query": query, "refId": name},
                "refresh": 2,  # when the time range changes: runs come and go
                "sort": 2,
                "multi": True,
                "includeAll": True,
                "allValue": ".*",
                "current": chosen,
            }
        )
    return entries


def placed() -> Iterator[Object]:
    """Place panels row by row: figures in the first, two panels in each other."""
    x = y = 0
    for number, panel in enumerate(PANELS, start=1):
        width, height = (SMALL, LOW) if panel.kind == "stat" else (HALF, TALL)
        yield {"id": number, "gridPos": {"x": x, "y": y, "w": width, "h": height}, **panel_object(panel)}
        x += width
        if x >= COLUMNS:
            x, y = 0, y + height


def panel_object(panel: Panel) -> Object:
    defaults: Object = {"unit": panel.unit, "min": 0, "color": {"mode": "palette-classic"}}
    if panel.maximum is not None:
        defaults["max"] = panel.maximum
    if panel.kind == "stat":
        defaults["color"] = {"mode": "thresholds"}
    else:
        line = {"mode": "line" if panel.limit is not None else "off"}
        defaults["custom"] = {"lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "thresholdsStyle": line}
    steps: list[Object] = [{"color": "green", "value": None}]
    if panel.limit is not None:
        steps.append({"color": "red", "value": panel.limit})
    defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.why,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options(panel),
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": SOURCE, "expr": of_this_run(query), "legendFormat": legend}
            for place, (query, legend) in enumerate(panel.queries)
        ],
    }


def options(panel: Panel) -> Object:
    if panel.kind == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "none"}
    return {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}


def of_this_run(query: str) -> str:
    """Return the query about the runs that are looked at."""
    return query.replace("@{", WHERE.removesuffix("}") + ", ").replace("@", WHERE)
