"""Plans of tasks over axes: how many jobs, how long, and what that costs."""

from __future__ import annotations

from typing import Any

import pytest

from scalable.manifest import load_text
from scalable.manifest.models import Task
from scalable.planning.components import ComponentPlan, plan_components
from scalable.planning.history import History
from scalable.planning.site import Machine, Site
from scalable.planning.task_jobs import time_of
from scalable.quantities import Cpu, Memory

MANIFEST = """
version: 1
project: {name: p}
targets: {t: {provider: local, max_workers: 4, processes: true, cpu_price: 0.10 EUR/h}}
components: {big: {cpus: 2}, small: {}}
tasks:
  simulate: {component: big, run: m:f, over: {scenario: [a, b], year: 1..10}}
  mean: {component: small, run: m:f, over: {scenario: [a, b]}, needs: [simulate]}
  table: {component: small, run: m:f, needs: [mean]}
"""


def planned(history: History | None = None, **wishes: Any) -> ComponentPlan:
    site = Site(load_text(MANIFEST, env={}, target="t").manifest, "t", Machine(Cpu.of(8), Memory.of_gib(16)))
    return plan_components(site, "t", history=history, **wishes)


def test_the_number_of_jobs_is_planned_before_anything_was_measured() -> None:
    plan = planned()
    assert plan.jobs == {"simulate": 20, "mean": 2, "table": 1}
    assert plan.to_dict()["jobs"] == plan.jobs
    assert plan.wall_s is None and plan.cost is None


def test_time_and_cost_follow_the_jobs_of_the_manifest_and_what_each_task_took() -> None:
    seconds = {
        "tag:big": (10.0,),
        "tag:small": (2.0,),
        "run:simulate": (60.0,),
        "run:mean": (5.0,),
        "run:table": (1.0,),
    }
    plan = planned(History(seconds=seconds, tasks={"tag:big": 3, "tag:small": 3}), policy="manual")
    assert plan.scale_plan.workers_by_tag == {"big": 2, "small": 2}
    assert plan.wall_s == pytest.approx(10 * 60 + 5 + 1)
    assert plan.cost is not None
    assert float(plan.cost.amount) == pytest.approx((2 * 2 + 2 * 1) * 0.10 * 606 / 3600)
    assert any("20 tasks of the manifest" in text for text in plan.assumptions)


def test_workers_go_where_the_jobs_of_the_manifest_are() -> None:
    seconds = {"tag:big": (60.0,), "tag:small": (1.0,)}
    plan = planned(History(seconds=seconds, tasks={"tag:big": 1, "tag:small": 1}), objective="minimize time")
    assert plan.scale_plan.workers_by_tag == {"big": 3, "small": 1}


def test_a_job_waits_for_those_it_needs_and_for_a_worker() -> None:
    tasks = {
        "a": Task(component="c", run="m:f", over={"n": 4}),
        "b": Task(component="c", run="m:f", over={"n": 4}, needs=["a"]),
    }
    seconds = {"a": 10.0, "b": 1.0}
    assert time_of(tasks, seconds, {"c": 1}) == 44
    assert time_of(tasks, seconds, {"c": 4}) == 11
    assert time_of(tasks, seconds, {"c": 3}) == 21
