"""The dashboard's JSON: its shape, and that it shows all that is measured and nothing that is not."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

from scalable.deploy import grafana
from scalable.observe.metrics import METRICS

METRIC = re.compile(r"\b(?:scalable|finetune)_[a-z_]+\b")


def test_the_dashboard_has_what_grafana_needs_to_import_it_beside_any_prometheus() -> None:
    board = json.loads(grafana.rendered())
    assert board["uid"] == "scalable-sweeps" and board["title"] and board["schemaVersion"] >= 36
    assert "id" not in board, "Grafana gives it one"
    source, project, run = board["templating"]["list"]
    assert source["type"] == "datasource" and source["query"] == "prometheus"
    assert (project["name"], run["name"]) == ("project", "run")
    assert all(one["datasource"]["uid"] == "${datasource}" for one in (project, run, *panels(board), *queries(board)))


def test_panels_have_names_explanations_and_places_of_their_own() -> None:
    found = panels(json.loads(grafana.rendered()))
    assert len({panel["id"] for panel in found}) == len({panel["title"] for panel in found}) == len(found)
    assert all(panel["description"] and panel["targets"] for panel in found)
    for first, second in combinations((panel["gridPos"] for panel in found), 2):
        apart = (
            first["x"] + first["w"] <= second["x"]
            or second["x"] + second["w"] <= first["x"]
            or first["y"] + first["h"] <= second["y"]
            or second["y"] + second["h"] <= first["y"]
        )
        assert apart, f"{first} and {second} overlap"
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in found)


def test_every_metric_is_shown_and_no_other_is_asked_for() -> None:
    board = json.loads(grafana.rendered())
    asked = {name for query in queries(board) for name in METRIC.findall(query["expr"])}
    variables = {name for one in board["templating"]["list"] for name in METRIC.findall(json.dumps(one))}
    assert asked | variables == set(METRICS)


def test_every_query_is_about_the_runs_that_are_chosen() -> None:
    for query in queries(json.loads(grafana.rendered())):
        named = len(METRIC.findall(query["expr"])) + query["expr"].count("ALERTS")
        assert query["expr"].count('project=~"$project", run=~"$run"') == named > 0, query["expr"]


def test_legends_name_labels_that_the_query_keeps() -> None:
    for query in queries(json.loads(grafana.rendered())):
        for label in re.findall(r"\{\{(\w+)\}\}", query["legendFormat"]):
            by = re.search(r"by \(([\w, ]+)\)", query["expr"])
            metric = METRICS.get(METRIC.findall(query["expr"])[0]) if METRIC.search(query["expr"]) else None
            kept = by[1].split(", ") if by else metric.labels if metric else ()
            assert label in kept, query


def test_what_may_have_one_name_in_several_runs_or_another_unit_is_never_taken_as_one() -> None:
    asked = [query["expr"] for query in queries(json.loads(grafana.rendered()))]
    kept = [set(by.split(", ")) for expression in asked for by in re.findall(r"by \(([\w, ]+)\)", expression)]
    assert any("worker" in labels for labels in kept)
    assert all("run" in labels for labels in kept if "worker" in labels), "workers of two runs have the same names"
    assert all("by (currency)" in expression for expression in asked if "_cost_" in expression)


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = board["panels"]
    return found


def queries(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [query for panel in panels(board) for query in panel["targets"]]
