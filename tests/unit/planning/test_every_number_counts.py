"""No number of the manifest is decoration: change it and the answer that depends on it changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from scalable.planning.acceptance import acceptance
from scalable.planning.campaign import plan_all
from scalable.planning.front import Choice
from scalable.planning.options import compare
from scalable.planning.plan import plan_sweep
from scalable.planning.scenarios import growth_table, margin_table, months
from scalable.planning.site import Site
from tests.helpers.planning.builders import Change, a_site, with_few_sweeps

VIEWS: dict[str, Callable[[Site], Any]] = {
    "margins": lambda site: [row.to_dict() for row in margin_table(site)],
    "months": lambda site: [month.to_dict() for month in months(site)],
    "options": lambda site: compare(site).to_dict(),
    "growth": lambda site: [row.to_dict() for row in growth_table(site)],
    "acceptance": lambda site: [criterion.to_dict() for criterion in acceptance(with_few_sweeps(site))],
    "plan": lambda site: plan_sweep(site, "calibration", Choice(policy="manual")).to_dict(),
    "heavy plan": lambda site: plan_sweep(site, "n_features").to_dict(),
    "all": lambda site: plan_all(site).to_dict(),
}


def answer(view: str, *changes: Change) -> str:
    return json.dumps(VIEWS[view](a_site(*changes)), sort_keys=True)


@cache
def as_written(view: str) -> str:
    return answer(view)


NODE = "PRO2-M: {cpu: 16, memory: 64GiB, allocatable: {cpu: 15.6, memory: 60GiB}, price: 0.1644 EUR/h}"
COMPUTE = "compute: {node: PRO2-M, min: 0, max: 6, provision: 3m, idle: 10m}"
STANDARD = "standard: {request: {cpu: 2, memory: 2GiB}, limit: {cpu: 4, memory: 8GiB}, peak: 2GiB}"
CALIBRATION = "calibration: {factor: calibration, assets: defi_top5, folds: 5, costs_bps: [10, 20, 30]"


@pytest.mark.parametrize(
    ("where", "old", "new", "view"),
    [
        (NODE, "0.1644", "0.2", "months"),
        (NODE, "0.1644", "0.2", "options"),
        (NODE, "0.1644", "0.2", "growth"),
        (NODE, "0.1644", "0.2", "plan"),
        (NODE, "cpu: 16", "cpu: 24", "margins"),
        (NODE, "cpu: 16", "cpu: 24", "months"),
        (NODE, "cpu: 16", "cpu: 24", "growth"),
        (NODE, "cpu: 16", "cpu: 24", "plan"),
        (NODE, "memory: 64GiB", "memory: 96GiB", "margins"),
        (NODE, "memory: 64GiB", "memory: 96GiB", "plan"),
        (NODE, "cpu: 15.6", "cpu: 9", "margins"),
        (NODE, "cpu: 15.6", "cpu: 14", "options"),
        (NODE, "memory: 60GiB", "memory: 55GiB", "margins"),
        (COMPUTE, "max: 6", "max: 4", "margins"),
        (COMPUTE, "max: 6", "max: 4", "growth"),
        (COMPUTE, "max: 6", "max: 3", "all"),
        (COMPUTE, "min: 0", "min: 1", "plan"),
        (COMPUTE, "provision: 3m", "provision: 4m", "plan"),
        (COMPUTE, "provision: 3m", "provision: 4m", "acceptance"),
        (COMPUTE, "idle: 10m", "idle: 12m", "months"),
        (COMPUTE, "idle: 10m", "idle: 12m", "plan"),
        (COMPUTE, "idle: 10m", "idle: 12m", "options"),
        (COMPUTE, "idle: 10m", "idle: 12m", "acceptance"),
        (STANDARD, "request: {cpu: 2", "request: {cpu: 3", "margins"),
        (STANDARD, "request: {cpu: 2", "request: {cpu: 4", "plan"),
        (STANDARD, "limit: {cpu: 4", "limit: {cpu: 3", "margins"),
        (STANDARD, "limit: {cpu: 4", "limit: {cpu: 3", "plan"),
        (STANDARD, "memory: 8GiB", "memory: 10GiB", "plan"),
        (STANDARD, "peak: 2GiB", "peak: 3GiB", "margins"),
        (STANDARD, "peak: 2GiB", "peak: 3GiB", "plan"),
        ("typical: 12GiB", "12", "13", "margins"),
        ("highest: 15GiB", "15", "16", "margins"),
        ("highest: 15GiB", "15", "16", "heavy plan"),
        ("request: {cpu: 2, memory: 12GiB}", "memory: 12GiB", "memory: 22GiB", "margins"),
        ("limit: {cpu: 4, memory: 24GiB}", "cpu: 4", "cpu: 3", "margins"),
        ("min_nodes: 2", "2", "3", "margins"),
        ("min_nodes: 2", "2", "3", "heavy plan"),
        ("wfrb: {request: {cpu: 1, memory: 2GiB}", "cpu: 1", "cpu: 2", "margins"),
        ("used: {cpu: 3.05, memory: 8.2GiB}}       #", "3.05", "3.1", "options"),
        ("price: 120 EUR/month", "120", "130", "options"),
        ("PRO2-L: {cpu: 32", "32", "64", "growth"),
        ("price: 0.33 EUR/h", "0.33", "0.30", "growth"),
        ("[AAVEUSDC, UNIUSDC,", "UNIUSDC,", "UNIUSDC, MKRUSDC,", "margins"),
        ("[AAVEUSDC, UNIUSDC,", "UNIUSDC,", "UNIUSDC, MKRUSDC,", "plan"),
        (CALIBRATION, "folds: 5", "folds: 6", "plan"),
        (CALIBRATION, "folds: 5", "folds: 6", "options"),
        (CALIBRATION, "[10, 20, 30]", "[10, 20]", "plan"),
        (f"{CALIBRATION}, trials: 30, run_minutes: 3.5", "run_minutes: 3.5", "run_minutes: 3.6", "plan"),
        (f"{CALIBRATION}, trials: 30, run_minutes: 3.5", "run_minutes: 3.5", "run_minutes: 3.6", "options"),
        ("discovery: {workers: 5", "5", "6", "margins"),
        ("peak_memory: 4GiB", "4", "5", "margins"),
        ("wfrb: {workers: 5", "5", "6", "margins"),
        ("ftf-normal: {sweeps: {standard: 2}}", "2", "3", "margins"),
        ("monthly: 200 EUR", "200", "210", "months"),
        ("monthly: 200 EUR", "200", "210", "plan"),
        ("monthly: 200 EUR", "200", "210", "acceptance"),
        ("database: 20 EUR", "20", "21", "months"),
        ("database: 20 EUR", "20", "21", "plan"),
        ("price: 0.16 EUR/h ", "0.16", "0.17", "months"),
        ("ftf-normal: {sessions: 12, hours: 4}", "12", "13", "months"),
        ("ftf-normal: {sessions: 12, hours: 4}", "hours: 4", "hours: 5", "months"),
        ("discovery: {sessions: 40, hours: 1.5}", "1.5", "1", "months"),
        ("ftf-normal: {sessions: 12, hours: 4}", "12", "30", "options"),
        ("pool: permanent, workers: 2", "workers: 2", "workers: 1", "options"),
        ("workers: 5, nodes: 1}", "nodes: 1", "nodes: 2", "options"),
        ("sweeps: {standard: 3}, assets", "3", "4", "growth"),
        ("always_on: 2", "2", "3", "growth"),
        ("margins: {ram: 40%", "40", "60", "margins"),
        ("margins: {ram: 40%", "40", "60", "heavy plan"),
        ("cpu: 15%", "15", "20", "margins"),
        ("cpu: 15%", "15", "20", "plan"),
        ("concurrency: {normal: 2}", "2", "1", "all"),
        ("factor: 2h30m", "2h30m", "2h", "acceptance"),
        ("scale_up: 5m", "5m", "4m", "acceptance"),
        ("scale_down: 15m", "15m", "14m", "acceptance"),
        ("sessions: 10}", "10", "12", "acceptance"),
        ("stated: {rows: 1425", "1425", "1350", "all"),
        ("stated: {rows: 1425, hours: 83, run_minutes: 3.5", "run_minutes: 3.5", "run_minutes: 5", "all"),
        ("stated: {ram_margin: 75%}", "75", "84", "margins"),
    ],
)
def test_changing_a_number_changes_the_answer(where: str, old: str, new: str, view: str) -> None:
    changed = where.replace(old, new, 1)
    assert changed != where
    assert answer(view, (where, changed)) != as_written(view)


@pytest.mark.parametrize("view", VIEWS)
def test_changing_nothing_changes_nothing(view: str) -> None:
    assert answer(view) == as_written(view)


@pytest.mark.parametrize("view", ["margins", "growth", "options"])
def test_a_comment_changes_nothing(view: str) -> None:
    assert answer(view, ("# where work may run", "# somewhere")) == as_written(view)
