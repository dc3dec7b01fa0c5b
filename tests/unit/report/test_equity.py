"""Equity curves of a small real sweep: computed anew from what is kept, they end where the rows do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scalable.manifest.load import load_text
from scalable.show.report.equity import Curves, curves_of
from scalable.store import Row
from scalable.sweeps.compiling import Compiled, compiled
from scalable.sweeps.results import Outcome, same
from scalable.sweeps.units import RECENT, Unit

MANIFEST = """version: 1
project: {name: proof}
sweeps:
  mine: {factor: calibration, variants: [none, sigmoid], assets: [UNIUSDC], folds: 2, costs_bps: [10, 20], trials: 1,
    settings: {timeframe: 4h, years: 2}}
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Compiled, Outcome, Path]:
    RECENT.clear()
    kept = tmp_path_factory.mktemp("artefacts")
    made = compiled(load_text(MANIFEST, "scalable.yaml", env={}).manifest, "mine", {})
    done = [row for place in made.units for row in Unit(made.workload.path, str(kept), place.cells)()]
    rows = {one.run_key: Row(run_key=one.run_key, sweep="mine", metrics=one.metrics) for one in done}
    return made, Outcome("mine", made.grid, made.expected, rows, "none"), kept


@pytest.fixture(autouse=True)
def from_files() -> Iterator[None]:
    """As in a process that has computed nothing itself."""
    RECENT.clear()
    yield
    RECENT.clear()


def drawn(made: Compiled, outcome: Outcome, kept: Path) -> Curves:
    found = curves_of(made, outcome, str(kept))
    assert found is not None
    return found


def test_a_curve_ends_at_the_total_return_of_its_rows(swept: tuple[Compiled, Outcome, Path]) -> None:
    made, outcome, kept = swept
    found = drawn(made, outcome, kept)
    assert "at 20 bps" in found.caption and list(found.lines) == ["UNIUSDC"] and found.remarks == ()
    for variant in ("none", "sigmoid"):
        grown = 1.0
        for key, cell in outcome.expected:
            if (cell.variant, cell.averaged) == ((variant,), (20,)):
                grown *= 1 + outcome.rows[key].metrics["total_return"]
        line = found.lines["UNIUSDC"][same(variant)]
        assert line[-1][1] == pytest.approx(grown)
        assert [at for at, _ in line] == sorted({at for at, _ in line}), "one walk forward through all folds"
        assert found.together[same(variant)][-1][1] == pytest.approx(grown)


def test_nothing_is_computed_for_a_picture(swept: tuple[Compiled, Outcome, Path], tmp_path: Path) -> None:
    made, outcome, _ = swept
    found = drawn(made, outcome, tmp_path / "empty")
    assert not found.lines
    assert found.remarks == ("not drawn: UNIUSDC (the result of stage search is not kept any more)",)


def test_rows_that_the_kept_results_do_not_give_have_no_curve(swept: tuple[Compiled, Outcome, Path]) -> None:
    made, outcome, kept = swept
    key = next(key for key, cell in outcome.expected if cell.averaged == (20,))
    other = {**outcome.rows[key].metrics, "total_return": 0.5}
    changed = Row(run_key=key, sweep="mine", metrics=other)
    found = drawn(made, replace(outcome, rows={**outcome.rows, key: changed}), kept)
    assert "does not give the total return that the row has" in found.remarks[0]


def test_an_asset_with_a_missing_row_is_not_drawn(swept: tuple[Compiled, Outcome, Path]) -> None:
    made, outcome, kept = swept
    key = next(key for key, cell in outcome.expected if cell.averaged == (20,))
    found = drawn(made, replace(outcome, rows={one: row for one, row in outcome.rows.items() if one != key}), kept)
    assert found.remarks == ("not drawn: UNIUSDC (a row is missing or failed)",)


def test_work_that_does_not_trade_has_no_curves(swept: tuple[Compiled, Outcome, Path], tmp_path: Path) -> None:
    text = MANIFEST.replace("settings: {timeframe: 4h, years: 2}", "run: 'tests.helpers.sweeps.builders:plain'")
    made = compiled(load_text(text, "scalable.yaml", env={}).manifest, "mine", {})
    rows = {key: Row(run_key=key, sweep="mine", metrics={"score": 1.0}) for key, _ in made.expected}
    assert curves_of(made, Outcome("mine", made.grid, made.expected, rows, "none"), str(tmp_path)) is None
