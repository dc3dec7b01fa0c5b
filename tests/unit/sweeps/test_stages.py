"""A stage declares what it reads, and cannot be written otherwise."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from scalable.sweeps.stages import StageError, scratch, stage
from scalable.sweeps.workload import Workload, find_workload
from tests.helpers.sweeps.builders import SMALL, fitted, noisy, row, table


def test_a_stage_is_still_a_function() -> None:
    assert fitted([1, 2], depth=3, seed=0, fold=1) == 10
    assert noisy.needs == ("table",) and noisy.reads == ("noise",)


def test_a_stage_travels_by_name() -> None:
    assert pickle.loads(pickle.dumps(fitted)) is fitted


def wants_more(table: Any, *, depth: int) -> None: ...
def wants_less(table: Any) -> None: ...
def takes_any(table: Any, **rest: Any) -> None: ...
def needs_nothing(*, depth: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (wants_more, {}, r"takes 'depth' but does not declare it; write reads=\(…, 'depth'\)"),
        (wants_less, {"reads": ("depth",)}, r"declares reads='depth' but does not take it; write def wants_less\(…, "),
        (takes_any, {}, "name each input"),
        (wants_less, {"only_if": {"bars": ("btc", "on")}}, "only_if names 'bars', which is none of its inputs: table"),
        (needs_nothing, {"reads": ("depth",), "unless": {"depth": 0}}, "no input that could pass through"),
        (wants_less, {"uses": "numpy"}, r"wants_less: uses='numpy' is one text; write uses=\('numpy',\)"),
        ("depth", {}, r"'depth' is not a function; write @stage, or @stage\(reads="),
    ],
)
def test_a_stage_whose_parameters_are_not_what_it_declares_is_refused(
    function: Callable[..., Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(StageError, match=message):
        stage(**options)(function)


def test_a_workload_names_the_stage_that_is_missing() -> None:
    with pytest.raises(StageError, match="stage fitted needs noisy, which no stage before it gives"):
        Workload((table, fitted, row))
    with pytest.raises(StageError, match="two stages named table"):
        Workload((table, table))
    with pytest.raises(StageError, match="at least one stage"):
        Workload(())
    with pytest.raises(StageError, match="searched"):
        Workload((table,), unit="searched")
    with pytest.raises(StageError, match=r"wants_less.* is not a stage; write @stage above it"):
        Workload((wants_less,))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere_at_all:row", "No module named 'nowhere_at_all'"),
        ("tests.helpers.sweeps.builders:nothing", "'nothing' is not defined"),
        ("tests.helpers.sweeps.builders:CALLS", "is a list; write a function, a stage or a Workload"),
        ("tests.unit.sweeps.test_stages:takes_any", "name the values of a cell"),
    ],
)
def test_a_workload_that_cannot_be_found_is_named(path: str, message: str) -> None:
    with pytest.raises(StageError, match=message):
        find_workload(path)


def test_a_value_nobody_gives_is_named_with_its_reader() -> None:
    with pytest.raises(StageError, match="nothing says what 'asset' is, which stage table reads"):
        SMALL.configured({"seed": 0, "fold": 0, "cost_bps": 1.0})


def test_outside_a_sweep_there_is_no_scratch_folder() -> None:
    assert scratch() is None
