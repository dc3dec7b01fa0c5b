"""A sweep that is compiled: every row has the key of all that decides it, and what decides nothing is refused."""

from __future__ import annotations

from typing import Any

import pytest

from scalable.manifest.load import load_text
from scalable.manifest.validation import ManifestError
from scalable.store import Row
from scalable.sweeps.compiling import Compiled, compiled
from scalable.sweeps.grid import Cell
from scalable.sweeps.stages import StageError, stage
from scalable.sweeps.workload import Workload

SMALL = "factor: depth, variants: [1, 2], assets: [A, BB], folds: 2, costs_bps: [1, 2]"
SMALL += ", run: 'tests.helpers.sweeps.builders:SMALL'"
TRADING = "factor: focal_loss, assets: [A], folds: 1, costs_bps: [1]"
DISCOVERY = (
    "factor: model, variants: [xgboost, logistic], assets: [A], folds: 1, run: 'scalable_finetune.discovery:WORKLOAD'"
)
VERSIONS: dict[str, int] = {}


def content(*, asset: str) -> str:
    return f"{asset} {VERSIONS.get(asset, 0)}"


def bitcoin() -> str:
    return content(asset="BTC")


@stage(reads=("asset",), inputs=content)
def prices(*, asset: str) -> str:
    return asset


@stage(inputs=bitcoin)
def overlay() -> str:
    return "BTC"


@stage(reads=("btc",), only_if={"overlay": ("btc", "on")})
def joined(prices: str, overlay: str | None, *, btc: str) -> dict[str, float]:
    return {"score": 1.0}


@stage(over=("asset", "universe"))
def together(prices: dict[str, str]) -> dict[str, str]:
    return prices


@stage(reads=("top",))
def ranked(together: dict[str, str], *, top: int) -> dict[str, float]:
    return {"score": float(top)}


@stage(over=("asset", "universe"), keep=False)
def side_by_side(prices: dict[str, str]) -> dict[str, str]:
    return prices


@stage(reads=("top",))
def best(side_by_side: dict[str, str], *, top: int) -> dict[str, float]:
    return {"score": float(top)}


ALONE = Workload((prices, overlay, joined))
UNIVERSE = Workload((prices, together, ranked))
UNKEPT = Workload((prices, side_by_side, best))


def made(sweep: str, base_env: dict[str, Any] | None = None) -> Compiled:
    text = f"version: 1\nproject: {{name: p}}\ngroups: {{pair: [A, BB]}}\nsweeps:\n  mine: {{{sweep}}}\n"
    return compiled(load_text(text, "scalable.yaml", env={}).manifest, "mine", base_env or {})


def keys(sweep: str) -> dict[Cell, str]:
    return {cell: key for key, cell in made(sweep).expected}


def test_a_row_keeps_its_key_when_the_sweep_around_it_changes() -> None:
    less = SMALL.replace(
        "[1, 2], assets: [A, BB], folds: 2, costs_bps: [1, 2]", "[2], assets: [BB], folds: 1, costs_bps: [2]"
    )
    assert keys(less).items() < keys(SMALL).items()
    assert all(Row(run_key=key, sweep="mine") for key in keys(SMALL).values()), "a store takes them"


def test_another_seed_gives_other_keys() -> None:
    assert not set(keys(SMALL).values()) & set(keys(f"{SMALL}, seed: 1").values())


def test_variants_that_differ_only_by_type_are_rows_of_their_own() -> None:
    found = made(SMALL.replace("variants: [1, 2]", "variants: [1, '1', true]")).expected
    assert len({key for key, _ in found}) == len(found) == 24


def test_the_baseline_is_what_is_locked_if_the_sweep_has_it_else_the_first() -> None:
    for locked, baseline in ((2, 2), (2.0, 2), (3, 1), ("2", 1)):
        assert made(SMALL, {"depth": locked}).baseline == baseline
    sweep = SMALL.replace("variants: [1, 2]", "variants: [0, 1]")
    assert made(sweep, {"depth": True}).baseline == 0, "true is not 1"


def test_what_is_locked_for_another_workload_disturbs_no_sweep() -> None:
    assert made(TRADING, {"optimizer": "adam", "model": "logistic"}).expected == made(TRADING).expected
    assert made(DISCOVERY, {"optimizer": "adam", "focal_loss": 2.0}).expected == made(DISCOVERY).expected


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        (SMALL.replace("depth", "dept"), "sweeps.mine.factor: no stage reads 'dept'.*asset, cost_bps, depth, fold"),
        (DISCOVERY.replace("model, variants: [xgboost, logistic]", "focal_loss"), "no stage reads 'focal_loss'"),
        (f"{SMALL}, settings: {{nois: loud}}", "sweeps.mine.settings: setting 'nois' is not defined; .*noise"),
        (f"{DISCOVERY}, settings: {{focal_loss: 2.0}}", "sweeps.mine.settings: setting 'focal_loss' is not defined"),
    ],
)
def test_a_factor_or_a_setting_that_nothing_reads_is_refused(sweep: str, said: str) -> None:
    with pytest.raises(StageError, match=said):
        made(sweep)


@pytest.mark.parametrize("axis", ["fold", "cost_bps", "asset"])
def test_what_every_row_has_its_own_of_cannot_be_varied(axis: str) -> None:
    with pytest.raises(ManifestError) as refused:
        made(SMALL.replace("depth", axis))
    assert [(each.code, each.path) for each in refused.value.report.errors] == [("two-sides", "sweeps.mine.variants")]


@pytest.mark.parametrize(
    ("sweep", "units"),
    [
        (
            "factor: btc, variants: ['off', 'on'], assets: [A, BB], folds: 1, run: '{here}:ALONE'",
            ["A fold 0", "BB fold 0"],
        ),
        ("factor: btc, variants: ['off', 'on'], assets: [A, BB], folds: 2, run: '{here}:ALONE'", ["A", "BB"]),
        ("factor: top, variants: [1, 2], assets: [pair], folds: 1, run: '{here}:UNIVERSE'", ["pair fold 0"]),
        (
            "factor: top, variants: [1, 2], assets: [pair], folds: 1, run: '{here}:UNKEPT'",
            ["pair 1 fold 0", "pair 2 fold 0"],
        ),
    ],
)
def test_rows_are_units_by_a_stage_that_all_of_them_need(sweep: str, units: list[str]) -> None:
    found = made(sweep.format(here=__name__))
    assert [unit.name for unit in found.units] == units
    assert sum(len(unit.cells) for unit in found.units) == len(found.cells)


def test_a_stage_is_counted_for_the_rows_that_ask_for_it_and_once_for_those_that_share_it() -> None:
    sweep = "factor: btc, variants: ['off', 'on'], assets: [A, BB], folds: 2, costs_bps: [1, 2]"
    shared = made(f"{sweep}, run: '{__name__}:ALONE'").sharing()
    assert shared == {"prices": (16, 2), "overlay": (8, 1), "joined": (16, 4)}
    assert made(SMALL).sharing() == {"table": (16, 2), "fitted": (16, 8), "row": (16, 16)}, "noise is left out"


def test_a_unit_that_some_rows_do_without_is_refused() -> None:
    with pytest.raises(StageError, match=r"unit overlay: some rows do without .*: prices, joined"):
        Workload((prices, overlay, joined), unit="overlay")


def test_the_fingerprint_of_an_assets_data_covers_what_any_of_its_rows_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    here = f"run: '{__name__}"
    sweeps = {
        "off": f"factor: btc, variants: ['off'], assets: [A, BB], folds: 1, {here}:ALONE'",
        "both": f"factor: btc, variants: ['off', 'on'], assets: [A, BB], folds: 1, {here}:ALONE'",
        "pair": f"factor: top, variants: [1, 2], assets: [pair], folds: 1, {here}:UNIVERSE'",
    }
    before = {name: made(sweep).data for name, sweep in sweeps.items()}

    def changed(asset: str) -> set[tuple[str, str]]:
        with monkeypatch.context() as patch:
            patch.setitem(VERSIONS, asset, 1)
            now = {name: made(sweep).data for name, sweep in sweeps.items()}
        return {(name, one) for name, data in now.items() for one in data if data[one] != before[name][one]}

    assert changed("BTC") == {("both", "A"), ("both", "BB")}
    assert changed("BB") == {("off", "BB"), ("both", "BB"), ("pair", "pair")}
