"""Sweeps over any axes: their rows, keys and names, and what is refused with its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scalable.axes import AxisKind
from scalable.errors import UnknownNameError
from scalable.findings import Finding
from scalable.manifest.load import load_text
from scalable.manifest.models import Manifest
from scalable.manifest.validation import ManifestError
from scalable.store.caching import key_of
from scalable.sweeps.compiling import Compiled, compiled
from scalable.sweeps.grid import Cell, Grid
from scalable.sweeps.questions import question_of
from scalable.sweeps.results import Outcome
from scalable.sweeps.rows import identity, matches, place, place_of, row_axes, row_of
from scalable.sweeps.stages import StageError
from scalable.verdicts.guards import Bar, Margin
from tests.helpers.paths import ROOT

KEYS = json.loads((ROOT / "tests/data/row_keys.json").read_text(encoding="utf-8"))
MODELS = """
    run: tests.unit.sweeps.test_axes:score
    compare: {model: [logreg, svm, forest], size: [1, 10, 100]}
    baseline: {size: 10}
    exclude: [{model: logreg, size: 100}, {model: forest}]
    over: {dataset: [digits, wine], fold: {folds: 3}}
    average: {seed: 2}
    settings: {trials: 7}
"""


def score(model: str, size: int, dataset: str, fold: int, seed: int, trials: int) -> dict[str, float]:
    return {"accuracy": size / (1 + fold + seed)}


def manifest(sweep: str) -> Manifest:
    body = f"\n{sweep}" if sweep.startswith("\n") else f" {{{sweep}}}\n"
    text = f"version: 1\nproject: {{name: p}}\ngroups: {{pair: [A, BB]}}\nsweeps:\n  models:{body}"
    return load_text(text, "scalable.yaml", env={}).manifest


def made(sweep: str = MODELS, base_env: dict[str, Any] | None = None) -> Compiled:
    return compiled(manifest(sweep), "models", base_env or {})


def refused(sweep: str) -> list[Finding]:
    with pytest.raises(ManifestError) as error:
        manifest(f"run: 'a:b', {sweep}")
    return list(error.value.report.errors)


def test_rows_are_every_variant_that_is_not_left_out_on_every_block() -> None:
    grid = made().grid
    assert grid.variants == (("logreg", 1), ("logreg", 10), ("svm", 1), ("svm", 10), ("svm", 100))
    assert len(grid) == len(list(grid)) == len(set(grid)) == 5 * 2 * 3 * 2
    assert grid.axes_of(next(iter(grid))) == {
        "model": "logreg", "size": 1, "dataset": "digits", "fold": 0, "seed": 0
    }  # fmt: skip
    assert [(axis.name, axis.values, axis.kind) for axis in grid.over] == [
        ("dataset", ("digits", "wine"), AxisKind.SAMPLE),
        ("fold", (0, 1, 2), AxisKind.FOLDS),
    ]


def test_a_row_is_called_by_its_values() -> None:
    grid = made().grid
    cell = Cell(("svm", 10), ("wine", 2), (1,))
    assert grid.cell_text(cell) == "svm/10 wine fold 2 seed 1"
    assert (grid.label(cell.variant), grid.block_text(cell.block), grid.group_of(cell)) == (
        "svm/10",
        "wine fold 2",
        "wine",
    )
    assert made().units[0].name == "digits logreg/1 fold 0 seed 0"


def test_the_baseline_is_the_first_value_of_each_axis_unless_one_is_named_or_locked() -> None:
    assert made().baseline == "logreg/10"
    assert made(base_env={"model": "svm", "size": 100}).baseline == "svm/100"
    assert made(base_env={"model": "svm", "size": 7}).baseline == "logreg/10", "that is no variant"


def test_a_function_gets_the_axes_and_settings_that_it_names() -> None:
    work, cell = made().cells[0]
    assert work.configuration == {**made().grid.axes_of(cell), "trials": 7}


@pytest.mark.parametrize("name", KEYS)
def test_rows_that_earlier_versions_stored_keep_their_keys(name: str) -> None:
    text = (
        f"version: 1\nproject: {{name: p}}\ngroups: {{pair: [A, BB]}}\nsweeps:\n  {name}: {{{KEYS[name]['sweep']}}}\n"
    )
    loaded = load_text(text, "scalable.yaml", env={}).manifest
    grid = Grid.of(loaded.sweeps[name], loaded.groups)
    places = {tuple(map(repr, identity(name, grid, cell))): identity(name, grid, cell) for cell in grid}
    for row in KEYS[name]["rows"]:
        assert key_of((places[tuple(map(repr, row["place"]))], row["stage"])) == row["key"]


def test_a_short_form_and_the_general_keys_it_stands_for_are_the_same_rows() -> None:
    short = "factor: calibration, variants: [none, sigmoid], assets: [A], folds: 2, costs_bps: [10, 20], trials: 3"
    general = (
        "workload: finetune, compare: {calibration: [none, sigmoid]}, over: {asset: [A], fold: {periods: 2}}, "
        "average: {cost_bps: [10, 20]}, settings: {trials: 3}"
    )
    assert [key for key, _ in made(short).expected] == [key for key, _ in made(general).expected]


def test_changing_one_value_of_an_axis_changes_the_keys_of_its_rows_only() -> None:
    before, after = dict(made().expected), dict(made(MODELS.replace("wine", "iris")).expected)
    kept = before.keys() & after.keys()
    assert {before[key].block[0] for key in kept} == {"digits"} and len(kept) == len(before) // 2


def test_rows_are_chosen_by_values_of_axes() -> None:
    chosen = made().of({"dataset": "wine", "fold": "2", "variant": "svm/10"})
    assert [chosen.grid.cell_text(cell) for _, cell in chosen.cells] == [
        "svm/10 wine fold 2 seed 0",
        "svm/10 wine fold 2 seed 1",
    ]
    for where in ({"data": "wine"}, {"dataset": "iris"}, {"model": "forest"}, {"model": "logreg", "size": "100"}):
        with pytest.raises(UnknownNameError):
            made().of(where)


@pytest.mark.parametrize(
    "sweep",
    [MODELS, "factor: depth, variants: [1, true], assets: pair, folds: 2, run: 'tests.helpers.sweeps.builders:SMALL'"],
)
def test_a_stored_row_stands_where_its_cell_does(sweep: str) -> None:
    grid = made(sweep).grid
    for cell in grid:
        row = row_of("models", grid, cell, run_key="0" * 32)
        assert place_of(row) == place(grid, cell)
        texts = {name: str(value) for name, value in grid.axes_of(cell).items() if not isinstance(value, bool)}
        assert matches(row_axes(row), texts)


def test_machines_get_every_axis_by_its_name() -> None:
    whole = made()
    (key, cell), *_ = whole.expected
    row = row_of("models", whole.grid, cell, run_key=key, metrics={"accuracy": 0.5}, elapsed_s=2.0)
    told = Outcome("models", whole.grid, whole.expected, {key: row}, whole.baseline).to_dict()
    assert told["axes"] == {
        "compare": {"model": ["logreg", "svm", "forest"], "size": [1, 10, 100]},
        "over": {"dataset": ["digits", "wine"], "fold": [0, 1, 2]},
        "average": {"seed": [0, 1]},
        "kinds": {"dataset": "sample", "fold": "folds"},
    }
    first = told["rows"][0]
    assert first | {"variant": "logreg/1", "block": "digits fold 0", "model": "logreg", "size": 1, "seed": 0} == first
    assert first | {"key": key, "status": "finished", "attempt": 1, "seconds": 2.0, "error": None} == first
    assert not {"asset", "cost_bps", "buys", "trials"} & {*first, *told}


def test_an_axis_that_no_function_reads_is_refused() -> None:
    for before, after in (("fold:", "part:"), ("seed:", "sed:"), ("size:", "sise:")):
        with pytest.raises(StageError):
            made(MODELS.replace(before, after))


@pytest.mark.parametrize(
    ("sweep", "found"),
    [
        ("compare: {model: []}", [("bad-value", "compare.model")]),
        ("compare: {model: [a, a]}", [("bad-value", "compare.model[1]")]),
        ("compare: {model: 3.5}", [("bad-value", "compare.model")]),
        ("compare: {model: [a, [b]]}", [("bad-value", "compare.model[1]")]),
        ("compare: {not a name: [a]}", [("bad-value", "compare.not a name")]),
        ("compare: {model: [a, b/c], size: [1]}", [("bad-value", "compare.model[1]")]),
        ("compare: {metrics: [a]}", [("bad-value", "compare.metrics")]),
        ("compare: models", [("bad-value", "compare")]),
        ("over: {dataset: [a]}", [("missing", "compare")]),
        ("compare: {m: [a]}, over: {fold: 5}", [("axis-kind", "over.fold")]),
        ("compare: {m: [a]}, over: {cv: 5}", [("axis-kind", "over.cv")]),
        ("compare: {m: [a]}, over: {split: 5}", [("axis-kind", "over.split")]),
        ("compare: {m: [a]}, over: {fold: {folds: 0}}", [("bad-value", "over.fold.folds")]),
        ("compare: {m: [a]}, over: {fold: {fold: 5}}", [("bad-value", "over.fold")]),
        ("compare: {m: [a]}, over: {fold: {folds: 5, periods: 5}}", [("bad-value", "over.fold")]),
        ("compare: {m: [a]}, over: {dataset: nowhere}", [("undefined-group", "over.dataset")]),
        ("compare: {m: [a]}, over: {m: [b]}", [("two-sides", "over.m")]),
        ("compare: {m: [a]}, average: {m: 2}", [("two-sides", "average.m")]),
        ("compare: {m: [a]}, average: [1]", [("bad-value", "average")]),
        ("compare: {m: [a, b]}, baseline: {m: c}", [("baseline-value", "baseline.m")]),
        ("compare: {m: [a, b]}, baseline: {n: c}", [("baseline-axis", "baseline.n")]),
        ("compare: {m: [a, b]}, baseline: a", [("wrong-type", "baseline")]),
        ("compare: {m: [a, b]}, exclude: [{n: a}]", [("exclude-axis", "exclude[0].n")]),
        ("compare: {m: [a, b]}, exclude: [{m: b}, {m: c}]", [("exclude-value", "exclude[1].m")]),
        ("compare: {m: [a, b]}, exclude: [{m: a}]", [("excluded-baseline", "exclude")]),
        ("compare: {m: [a, b]}, exclude: [{}]", [("bad-value", "exclude[0]")]),
        ("compare: {m: [a, b]}, exclude: {m: a}", [("wrong-type", "exclude")]),
        ("compare: {m: [a]}, settings: {m: 1}", [("unread-setting", "settings.m")]),
        ("compare: {m: [a]}, settings: [1]", [("wrong-type", "settings")]),
        ("compare: {m: [a]}, metrics: {f1: up}", [("bad-value", "metrics.f1")]),
        ("compare: {m: [a]}, metrics: {f1: higher}, primary: auc", [("bad-value", "primary")]),
        ("compare: {m: [a]}, require: {f1: high}", [("bad-value", "require.f1")]),
        ("compare: {m: [a]}, require: {f1: 0.9}", [("bad-value", "require.f1")]),
        ("compare: {m: [a]}, guard: {f1: much}", [("bad-value", "guard.f1")]),
        ("compare: {m: [a]}, smallest: 0", [("bad-value", "smallest")]),
        ("compare: {m: [a]}, workload: finetune", [("bad-value", "workload")]),
        ("compare: {m: [a]}, workload: nothing", [("unknown-workload", "workload")]),
        ("compare: {m: 1000}, over: {d: 1000, e: 10}", [("too-many-rows", "")]),
        ("compare: {m: 10000000}", [("bad-value", "compare.m")]),
        ("compare: {m: [a]}, factor: depth, variants: [1], assets: [A]", [("two-forms", "factor")]),
        ("compare: {m: [a]}, models: [a]", [("unknown-key", "models")]),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told_with_its_place(sweep: str, found: list[tuple[str, str]]) -> None:
    told = [(each.code, each.path.removeprefix("sweeps.models").removeprefix(".")) for each in refused(sweep)]
    assert sorted(told) == sorted(found)


def test_stopping_variants_early_is_refused_until_something_does_it() -> None:
    [finding] = refused("compare: {m: [a]}, stop: futile")
    assert (finding.code, finding.path) == ("not-yet", "sweeps.models.stop")


def test_a_million_rows_are_counted_without_being_made() -> None:
    sweep = "run: 'a:b', compare: {m: 100}, over: {d: 100, e: {folds: 100}}"
    assert len(Grid.of(manifest(sweep).sweeps["models"], {})) == 1_000_000


ASKS = "run: 'a:b', compare: {m: [a, b]}, metrics: {accuracy: higher, latency_ms: lower}"


def test_a_manifest_says_what_decides_what_guards_it_and_how_good_a_variant_must_be() -> None:
    written = f"{ASKS}, primary: latency_ms, smallest: 2, guard: {{accuracy: 1%}}, require: {{accuracy: '>= 0.9'}}"
    question = question_of(manifest(written).sweeps["models"])
    assert (question.primary, question.smallest) == ("latency_ms", 2.0)
    assert question.guards == {"accuracy": Margin(0.01)}
    assert question.bars == (Bar("accuracy", above=True, value=0.9, strict=False),)


def test_the_trading_workload_is_judged_by_its_own_metric_unless_the_manifest_says_otherwise() -> None:
    short = "factor: calibration, assets: [A], folds: 2"
    own = question_of(manifest(short).sweeps["models"])
    assert (own.primary, own.guards) == ("sharpe", {"max_drawdown": Margin(0.1)})
    other = question_of(manifest(f"{short}, primary: max_drawdown, smallest: 0.1").sweeps["models"])
    assert (other.primary, other.smallest, other.guards) == ("max_drawdown", 0.1, {})


@pytest.mark.parametrize(("key", "metric"), [("primary: speed", "primary"), ("guard: {speed: 10%}", "guard")])
def test_a_metric_without_a_direction_decides_nothing(key: str, metric: str) -> None:
    with pytest.raises(StageError, match=rf"sweeps.models.{metric}: .*speed"):
        made(f"{MODELS}    {key}\n")
