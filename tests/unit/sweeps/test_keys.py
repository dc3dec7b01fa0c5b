"""Whatever decides a result is in its key, and nothing else is."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import pytest

from scalable.sweeps import workload as workloads
from scalable.sweeps.stages import Stage, StageError, stage
from scalable.sweeps.workload import Keys, Workload, code_of, find_workload
from tests.helpers.sweeps.builders import SMALL

CELL = {"asset": "AAVE", "seed": 0, "fold": 1, "cost_bps": 10.0}


def keys(workload: Workload = SMALL, **changes: Any) -> dict[str, str]:
    return Keys(workload).of(workload.configured({**CELL, **changes}))


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


def test_the_same_configuration_has_the_same_keys() -> None:
    assert keys() == keys()


@pytest.mark.parametrize(
    ("change", "stages"),
    [
        ({"cost_bps": 20.0}, {"row"}),
        ({"fold": 2}, {"fitted", "row"}),
        ({"asset": "UNI"}, {"table", "noisy", "fitted", "row"}),
        ({"noise": "loud"}, {"noisy", "fitted", "row"}),
        ({"depth": True}, {"fitted", "row"}),
        ({"unheard": 1}, set()),
    ],
)
def test_a_change_reaches_the_stages_after_it_and_no_others(change: dict[str, Any], stages: set[str]) -> None:
    assert changed(keys(), keys(**change)) == stages


def test_a_stage_that_is_left_out_has_the_key_of_what_passes_through() -> None:
    found = keys(noise="off")
    assert found["noisy"] == found["table"]


def with_code(code: str, module: str = "tests.sweeps.made", **given: Any) -> Stage[..., Any]:
    names: dict[str, Any] = {"__name__": module, **given}
    exec(code, names)
    function = names["made"]
    assert isinstance(function, FunctionType)
    return stage(reads=("seed",))(function)


def test_other_code_is_another_key_but_other_comments_are_not() -> None:
    one = with_code("def made(*, seed):\n    return seed + 1")
    commented = with_code("def made(*, seed):\n    # why\n    return seed + 1")
    other = with_code("def made(*, seed):\n    return seed + 2")
    assert code_of(one) == code_of(commented) != code_of(other)


def test_a_helpers_code_counts() -> None:
    one = with_code("def helper(x):\n    return x\ndef made(*, seed):\n    return helper(seed)")
    other = with_code("def helper(x):\n    return -x\ndef made(*, seed):\n    return helper(seed)")
    assert code_of(one) != code_of(other)


@pytest.mark.parametrize("module", ["tests.sweeps.made", "scalable_finetune.made"])
def test_the_code_of_what_runs_stages_does_not_count(module: str) -> None:
    def product(code: str) -> Any:
        names: dict[str, Any] = {"__name__": "scalable.worker.runner.made"}
        exec(code, names)
        return names["report"]

    code = "def made(*, seed):\n    report(seed)\n    return seed"
    one = with_code(code, module, report=product("def report(step):\n    return None"))
    other = with_code(code, module, report=product("def report(step):\n    return print(step)"))
    assert code_of(one) == code_of(other)
    assert code_of(one) != code_of(with_code(code, module, report=print)), "which one is called does"


def test_a_shipped_workloads_own_code_counts() -> None:
    def helper(value: int) -> Any:
        names: dict[str, Any] = {"__name__": "scalable_finetune.other"}
        exec(f"def helper():\n    return {value}", names)
        return names["helper"]

    code = "def made(*, seed):\n    return helper()"
    one, other = (with_code(code, "scalable_finetune.made", helper=helper(value)) for value in (1, 2))
    assert code_of(one) != code_of(other)


def test_a_stage_that_calls_another_one_has_its_code_in_its_key() -> None:
    inner = [with_code(f"def made(*, seed):\n    return seed + {n}") for n in (1, 2)]
    one, other = (with_code("def made(*, seed):\n    return inner(seed=seed)", inner=each) for each in inner)
    assert code_of(one) != code_of(other)


def test_another_version_of_a_library_that_is_used_is_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(*, seed: int) -> int:
        return seed

    used = stage(reads=("seed",), uses=("sklearn",))(fit)
    before = code_of(used)
    monkeypatch.setattr(workloads, "version_of", lambda name: "99.0")
    assert code_of(used) != before


def test_a_library_that_is_not_installed_is_named() -> None:
    def fit(*, seed: int) -> int:
        return seed

    with pytest.raises(StageError, match="stage fit uses nonesuch, which is not installed"):
        code_of(stage(reads=("seed",), uses=("nonesuch",))(fit))


def test_outside_data_is_asked_for_once_and_counts() -> None:
    asked: list[str] = []

    def read(*, asset: str) -> str:
        return asset

    def content(*, asset: str) -> str:
        asked.append(asset)
        return f"{asset} as of {len(version)}"

    version: list[int] = []
    workload = Workload((stage(reads=("asset",), inputs=content)(read),))
    one = Keys(workload)
    before = one.of({"asset": "A"})
    assert one.of({"asset": "A"}) == before and asked == ["A"]
    version.append(1)
    again = Keys(workload)
    assert again.of({"asset": "A"}) != before
    assert set(again.outside(again.of({"asset": "A"}))) != set(one.outside(before))


def test_an_input_asked_for_under_a_condition_counts_only_then() -> None:
    def bars(*, asset: str) -> str:
        return asset

    def btc(*, source: str) -> str:
        return source

    def joined(bars: str, btc: str | None, *, overlay: str) -> dict[str, Any]:
        return {"bars": bars, "btc": btc}

    workload = Workload(
        (
            stage(reads=("asset",))(bars),
            stage(reads=("source",))(btc),
            stage(reads=("overlay",), only_if={"btc": ("overlay", "on")})(joined),
        )
    )
    cell = {"asset": "A", "source": "x", "overlay": "off"}
    found = {
        name: Keys(workload).of({**cell, **change}) for name, change in {"off": {}, "off, y": {"source": "y"}}.items()
    }
    assert found["off"]["joined"] == found["off, y"]["joined"]
    on = {name: Keys(workload).of({**cell, "overlay": "on", "source": name})["joined"] for name in "xy"}
    assert on["x"] != on["y"]


def test_a_function_of_ones_own_reads_what_its_parameters_name() -> None:
    found = find_workload("tests.helpers.sweeps.builders:plain")
    assert found.row.reads == ("variant", "asset", "fold", "weight")
    given = {"variant": "a", "asset": "b", "fold": 0}
    assert found.configured(given)["weight"] == 2.0
    one = Keys(found).of(found.configured(given))
    assert one == Keys(found).of(found.configured({**given, "cost_bps": 5.0})), "what it does not read does not count"
    assert one != Keys(found).of(found.configured({**given, "fold": 1}))
