"""What a sweep teaches the next plan."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scalable.cli.main import main
from scalable.cluster.base import DeploymentSpec
from scalable.session.machine import history
from scalable.session.session import ScalableSession
from tests.helpers.session.builders import Project

pytestmark = pytest.mark.usefixtures("world")


@pytest.mark.parametrize(("cores", "workers", "cpus"), [(2, 2, 1), (2, 1, 2), (1, 3, 1), (16, 2, 4), (64, 2, 4)])
def test_a_worker_has_an_equal_part_of_the_cores_up_to_its_profiles_limit(
    project: Project, monkeypatch: pytest.MonkeyPatch, cores: int, workers: int, cpus: int
) -> None:
    monkeypatch.setattr("scalable.cluster.base.usable_cpus", lambda: cores)
    sweep = {"factor": "size", "variants": [1], "assets": ["A"], "run": "m:f"}
    session = project.session(components={}, sweeps={"trial": sweep}, target={"max_workers": workers})
    assert session.spec().components["standard"].cpus == cpus
    nowhere = DeploymentSpec.from_manifest(session.manifest, target_name=None)
    assert nowhere.components["standard"].cpus == 1, "without a target there may be a worker on every core"


def test_a_component_has_the_cpus_it_says(project: Project) -> None:
    session = project.session(components={"model": {"cpus": 64}}, target={"max_workers": 2})
    assert session.spec().components["model"].cpus == 64


CODE = """
from scalable.sweeps.stages import stage
from scalable.sweeps.workload import Workload
from tests.helpers.session.virtual_workers import compute

@stage(reads=("asset", "fold", "size"))
def search(*, asset, fold, size):
    return burn(asset, size, fold, 0)["score"]

@stage(reads=("cost_bps",), keep=False)
def row(search, *, cost_bps):
    return {"score": search - cost_bps}

work = Workload((search, row))

def burn(asset, variant, fold, seed):
    "Busy for a time that differs by cell."
    compute(0.1 + 0.03 * fold + 0.05 * len(asset) + 0.02 * variant)
    return {"score": float(seed)}

def moody(asset, variant, fold, mood="good"):
    return burn(asset, variant, fold, 0)
"""


GUESS_S = 60.0


class Burning:
    """24 cells that are busy for 0.17 to 0.38 s each, on two workers."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.module = project.module(CODE)

    def session(self, **changes: Any) -> ScalableSession:
        sweep = {"factor": "size", "variants": [1, 2], "assets": ["A", "BB", "CCC"], "folds": 4}
        run = {"run": f"{self.module}:burn", **changes}
        target = {"max_workers": 2}
        return self.project.session(components={}, sweeps={"trial": {**sweep, **run}}, target=target)

    def report(self, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
        capsys.readouterr()
        assert main(["report", "--format", "json"]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found


@pytest.fixture
def burning(project: Project) -> Burning:
    return Burning(project)


def test_the_plan_before_the_second_run_is_closer_to_what_happens_than_the_first_and_says_that_it_learned(
    burning: Burning, capsys: pytest.CaptureFixture[str]
) -> None:
    guessed = burning.session().plan_sweep("trial")
    assert guessed.wall_s == pytest.approx(24 / 2 * GUESS_S)
    assert "guessed-time" in {finding.code for finding in guessed.warnings}
    assert burning.session().run_sweep("trial").complete

    again = burning.session(seed=1)  # nothing of the first run is found
    learned = again.plan_sweep("trial")
    assert "(mean of 24 measured)" in learned.assumptions[0]
    assert "(median of 1 measured)" in " ".join(learned.assumptions)
    assert learned.workers == 2
    assert learned.ready_s > 0
    assert again.run_sweep("trial", learned).computed == 24

    both = burning.report(capsys)["plan_vs_actual"]
    planned, actual = both["wall_s"]["planned"], both["wall_s"]["actual"]
    assert planned == pytest.approx(learned.wall_s, abs=0.001)
    assert abs(planned - actual) < abs(guessed.wall_s - actual)
    assert both["startup_s"]["planned"] == pytest.approx(learned.ready_s, abs=0.001)
    assert both["retries"] == {"planned": 0, "actual": 0}
    assert both["tasks"]["standard"] == {"planned": 24, "actual": 24}

    main(["report"])
    shown = capsys.readouterr().out
    assert "Plan against actual" in shown
    assert "start-up" in shown
    (sweep,) = [line for line in shown.splitlines() if line.strip().startswith("trial")]
    assert "finished" in sweep
    assert "× 24" in sweep


def test_units_that_found_their_costliest_stage_teach_nothing(burning: Burning) -> None:
    """With another cost there are new rows on the same searches, which the artefacts have."""
    searched = {"folds": 2, "variants": [1], "run": f"{burning.module}:work"}
    assert burning.session(**searched, costs_bps=[1]).run_sweep("trial").executed["search"] == 6
    (before,) = history().units["size"]
    assert len(before.seconds) == 6
    outcome = burning.session(**searched, costs_bps=[2]).run_sweep("trial")
    assert (outcome.computed, outcome.executed.get("search", 0)) == (6, 0)
    assert history().units["size"] == (before,)
    assert len(history().starts["local"]) == 2, "how long a session takes to start was learned from both"


def test_what_was_measured_is_kept_with_the_base_and_the_code(burning: Burning) -> None:
    run = f"{burning.module}:moody"
    session = burning.session(run=run)
    base = {"mood": "bad", "other": 1, "seed": 3}
    with session.open_store() as store:
        store.set_config(base, factor="mood", variant="bad", reason="tested", expect_version=0)
    assert session.site().base == base
    assert session.run_sweep("trial").complete
    (record,) = burning.project.journal("sweep-started")
    assert record["base"] == {"mood": "bad"}, "the workload reads nothing called other, and the sweep has its own seed"
    assert record["code"] == session.site().code(run) != ""
    (units,) = history().units["size"]
    assert units.base == "mood=bad"
    assert "24 measured" in burning.session(run=run).plan_sweep("trial").assumptions[0]


def test_planning_makes_no_store_and_tells_of_one_that_cannot_be_read(burning: Burning) -> None:
    session = burning.session()
    file = burning.project.folder / ".scalable" / "results.db"
    assert session.plan_sweep("trial").sweep == "trial"
    assert not file.exists()
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"no database" * 1000)
    assert "base-unknown" in {finding.code for finding in session.plan_sweep("trial").warnings}
