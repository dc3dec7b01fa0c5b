"""The engine gets the same rules in the simulated world and in the real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalable.engine import Rules
from scalable.manifest import load_file
from scalable.planning.campaign import plan_all
from scalable.planning.components import plan_components
from scalable.planning.history import History
from scalable.planning.loads import sweep_load
from scalable.planning.placement import PoolRoom
from scalable.planning.rules import rules_for
from scalable.planning.site import Site
from scalable.quantities import Money
from tests.helpers.paths import ROOT
from tests.helpers.planning.builders import MACHINE

MANIFESTS = [*ROOT.glob("examples/*/scalable.yaml"), *ROOT.glob("src/scalable/cli/templates/*.yaml")]
BUDGET = Money.parse("50 EUR")


def targets(path: Path) -> list[str]:
    return list(load_file(path, env={}).manifest.targets)


CASES = [
    pytest.param(path, name, id=f"{path.parent.name}-{path.stem}-{name}")
    for path in MANIFESTS
    for name in targets(path)
]


def a_site(path: Path, target: str) -> Site:
    return Site(load_file(path, env={}, target=target).manifest, target, MACHINE)


def simulated(site: Site) -> Rules:
    """Of all sweeps of a manifest together."""
    planned = [sweep_load(site, name, History()).planned(2) for name in site.manifest.sweeps]
    return site.stage(planned, budget=BUDGET).rules


def live(site: Site, target: str) -> Rules:
    """Of a session that was started with its own plan."""
    plan = plan_components(site, target) if site.manifest.components else plan_all(site)
    return rules_for(site, plan.scale_plan, budget=BUDGET)


def kinds(given: Rules) -> dict[str, tuple[object, ...]]:
    return {tag: (kind.memory, kind.slots, kind.larger, kind.alone, kind.pool) for tag, kind in given.kinds.items()}


def pools(given: Rules) -> dict[str, tuple[object, ...]]:
    rooms = [room for room in given.pools.values() if isinstance(room, PoolRoom)]
    assert len(rooms) == len(given.pools)
    return {room.name: (room.price, room.max_nodes) for room in rooms}


@pytest.mark.parametrize(("path", "target"), CASES)
def test_both_worlds_have_the_same_rules(path: Path, target: str) -> None:
    site = a_site(path, target)
    forecast, run = simulated(site), live(site, target)
    assert kinds(forecast) == kinds(run)
    assert pools(forecast) == pools(run)
    assert (forecast.policies, forecast.budget) == (run.policies, run.budget)
    assert {kind.pool for kind in run.kinds.values()} <= set(site.pools)
