"""After one sweep a forecast is near what comes: start, end, and what nodes cost. The bounds are wide."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from scalable.planning.campaign import Campaign
from scalable.session.session import ScalableSession
from tests.helpers.kubernetes.helpers import Namespace, Project
from tests.helpers.kubernetes.naps import naps, write_code
from tests.helpers.kubernetes.pools import SLOW
from tests.helpers.waiting import eventually

JOB_S = 3.0
WIDE = 2.0  # times as much or as little: a busy machine starts a worker in twice its usual time


def session(kube: Namespace, project: Project, number: int, *, sweeps: int = 1) -> ScalableSession:
    write_code(project.folder, JOB_S)
    file = project.folder / "scalable.yaml"
    file.write_text(yaml.safe_dump(naps(kube, SLOW, number, job_s=JOB_S, sweeps=sweeps), sort_keys=False))
    eventually(lambda: not kube.nodes(SLOW.name), lambda: "an empty pool")
    return ScalableSession.from_yaml(file, target="there")


def run(session: ScalableSession) -> dict[str, Any]:
    """Run the first sweep; the report of its run."""
    outcome = session.run_sweep("naps-0", session.plan_sweep("naps-0", policy="manual"))
    assert outcome.complete, outcome.why()
    found: dict[str, Any] = json.loads((session.folder.path / "report.json").read_text(encoding="utf-8"))
    return found


def assert_near(planned: float, actual: float, what: str) -> None:
    assert actual / WIDE <= planned <= actual * WIDE, f"{what}: {planned} planned, {actual} came"


def test_a_learned_forecast_is_near_the_run_and_its_bill(kube: Namespace, project: Project) -> None:
    run(session(kube, project, 0))
    again = session(kube, project, 1)
    (start,) = again.history().starts["kubernetes"]
    assert start.ask_s and start.join_s and start.close_s
    assert start.node_s[SLOW.name] >= SLOW.provision_s - 1, "the API counts whole seconds"
    report = run(again)
    both = report["plan_vs_actual"]
    for name in ("startup_s", "wall_s", "node_hours"):
        assert_near(both[name]["planned"], both[name]["actual"], name)
    assert_near(both["cost"]["planned"]["amount"], report["cost"]["amount"], "cost")
    (machine,) = {record["machine"]: record for record in project.journal("machine")[-1:]}.values()
    assert machine["up"] - machine["since"] == pytest.approx(SLOW.provision_s), "the start of its machine is paid"


def test_two_sweeps_in_turn_take_both_their_starts_and_one_wait_for_nodes(kube: Namespace, project: Project) -> None:
    run(session(kube, project, 0))
    two = session(kube, project, 1, sweeps=2)
    campaign = two.plan()
    assert isinstance(campaign, Campaign) and campaign.in_turn is not None
    began = ended = 0.0
    for name in two.manifest.sweeps:
        one = ScalableSession.from_yaml(two.path, target="there")
        assert one.run_sweep(name).complete
        times = json.loads((one.folder.path / "report.json").read_text(encoding="utf-8"))["run"]
        began, ended = began or times["started"], times["ended"]
    assert_near(campaign.in_turn.total_s, ended - began, "time of both")
    assert campaign.in_turn.total_s > sum(plan.wall_s for plan in campaign.plans) + campaign.plans[0].ready_s
