"""A sweep on a real local cluster: nothing twice, nothing lost, nothing called complete that is not."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

from scalable.observe import RunView
from scalable.session.session import ScalableSession
from scalable.session.sweep.outcomes import SweepOutcome
from scalable.store import Filter, Row, open_store
from tests.helpers.session.builders import Project

CODE = """
from pathlib import Path
from scalable.sweeps.stages import stage
from scalable.sweeps.workload import Workload

def note(what):
    with open("executed.log", "a") as log:
        log.write(what + chr(10))

@stage(reads=("asset",))
def table(*, asset):
    note(f"table {asset}")
    return [len(asset)]

@stage(reads=("depth", "fold", "seed"))
def fitted(table, *, depth, fold, seed):
    note(f"fitted {table[0]} {depth} {fold}")
    if Path(f"break-{depth}-{fold}").exists():
        raise ValueError(f"depth {depth} does not fit")
    return table[0] * depth + fold + seed

@stage(reads=("cost_bps",), keep=False)
def row(fitted, *, cost_bps):
    return {"score": fitted - cost_bps, "buys": int(fitted)}

work = Workload((table, fitted, row), unit="fitted")
"""


class Sweeps:
    """A project with one sweep of 2 depths × 3 assets × 2 folds × 2 costs: 24 rows, 12 units, 3 tables."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.module = project.module(CODE)

    def session(self, **changes: Any) -> ScalableSession:
        sweep = {
            "factor": "depth", "variants": [1, 2], "assets": ["A", "BB", "CCC"], "folds": 2, "costs_bps": [1, 2],
            "run": f"{self.module}:work", "run_minutes": 0.01, **changes,
        }  # fmt: skip
        return self.project.session(
            components={}, sweeps={"trial": sweep}, target={"max_workers": 2, "processes": True}, policies=AT_ONCE
        )

    def run(self, **changes: Any) -> SweepOutcome:
        return self.session(**changes).run_sweep("trial")

    def rewrite(self, before: str, after: str) -> None:
        """Change the workload's code, for this process too."""
        (self.project.folder / f"{self.module}.py").write_text(CODE.replace(before, after), encoding="utf-8")
        sys.modules.pop(self.module, None)
        importlib.invalidate_caches()

    def executed(self) -> list[str]:
        log = self.project.folder / "executed.log"
        return log.read_text(encoding="utf-8").split("\n")[:-1] if log.exists() else []

    def rows(self) -> list[Row]:
        with open_store("sqlite:///.scalable/results.db") as store:
            return list(store.rows(Filter(sweep="trial")))

    def grid(self) -> str:
        """What the latest run's journal tells of the grid, a letter for each row."""
        view = RunView.of(self.project.journal())
        return str(view.grids.to_list()[0]["cells"])


AT_ONCE = {"retry": {"delay": "0s"}}


@pytest.fixture
def sweeps(project: Project) -> Sweeps:
    return Sweeps(project)
