"""Axes as they are written: lists, ranges and numbers; what is none of them is refused with its place."""

from __future__ import annotations

import doctest
from typing import Any

import pytest

from scalable import axes
from scalable.axes import MOST_COMBINATIONS, combinations, count, fields_in, filled_in, job_name, parse_axes, task_of
from scalable.errors import QuantityError


def test_the_examples_in_its_text_are_true() -> None:
    assert doctest.testmod(axes).failed == 0


@pytest.mark.parametrize(
    ("written", "values"),
    [
        (["low", "high"], ("low", "high")),
        ("2025..2028", (2025, 2026, 2027, 2028)),
        ("-2 .. 1", (-2, -1, 0, 1)),
        ("7..7", (7,)),
        (3, (0, 1, 2)),
        ([2000, "2010..2012", 2020], (2000, 2010, 2011, 2012, 2020)),
        ([True, 0.5, "a b"], (True, 0.5, "a b")),
    ],
)
def test_an_axis_is_a_list_a_range_or_a_number(written: Any, values: tuple[Any, ...]) -> None:
    parsed = parse_axes({"axis": written})["axis"]
    assert parsed == values
    assert list(map(type, parsed)) == list(map(type, values))


@pytest.mark.parametrize(
    ("written", "at", "says", "remedy"),
    [
        ({}, (), "there are no axes", "year: 2025..2060"),
        ([1, 2], (), "not a mapping of axes", "year: 2025..2060"),
        ({"a": []}, ("a",), "has no values", "write a list"),
        ({"a": 0}, ("a",), "0 gives no values", "from 1"),
        ({"a": -3}, ("a",), "-3 gives no values", "from 1"),
        ({"a": True}, ("a",), "true is no axis", "write a list"),
        ({"a": None}, ("a",), "nothing is no axis", "write a list"),
        ({"a": "low"}, ("a",), "'low' is no axis", "write a list"),
        ({"a": 1.5}, ("a",), "1.5 is no axis", "write a list"),
        ({"a": "2060..2025"}, ("a",), "runs backwards", "write 2025..2060"),
        ({"a": [1, "5..2"]}, ("a", 1), "runs backwards", "write 2..5"),
        ({"a": [1, 2, 1]}, ("a", 2), "1 is listed twice", "remove one"),
        ({"a": [1, "1"]}, ("a", 1), "1 is listed twice", "remove one"),
        ({"a": [1, "1..2"]}, ("a", 1), "1 is listed twice", "remove one"),
        ({"a": ["x", [1]]}, ("a", 1), "[1] is no value", "write a text"),
        ({"a": [float("nan")]}, ("a", 0), "nan is no value", "write a text"),
        ({"a": ["x", " "]}, ("a", 1), "' ' is no value", "write a text"),
        ({"a": f"1..{MOST_COMBINATIONS + 1}"}, ("a",), "more than the 100,000", "write fewer"),
        ({"a": 10**9}, ("a",), "more than the 100,000", "write fewer"),
        ({"a b": [1]}, ("a b",), "cannot be the name of an axis", "letters"),
        ({"class": [1]}, ("class",), "cannot be the name of an axis", "letters"),
    ],
)
def test_what_is_no_axis_is_refused(written: Any, at: tuple[Any, ...], says: str, remedy: str) -> None:
    with pytest.raises(QuantityError) as error:
        parse_axes(written)
    assert error.value.at == at
    assert says in error.value.message
    assert remedy in error.value.remedy


def test_every_wrong_axis_is_told() -> None:
    with pytest.raises(QuantityError) as error:
        parse_axes({"a": [], "b": [1], "c": "no"})
    assert [each.at for each in (error.value, *error.value.others)] == [("a",), ("c",)]


def test_the_last_axis_varies_fastest() -> None:
    over = {"scenario": ("low", "high"), "year": (1, 2, 3)}
    places = list(combinations(over))
    assert len(places) == count(over) == 6
    assert places[:4] == [
        {"scenario": "low", "year": 1},
        {"scenario": "low", "year": 2},
        {"scenario": "low", "year": 3},
        {"scenario": "high", "year": 1},
    ]
    assert list(combinations({})) == [{}] and count({}) == 1


def test_a_job_is_named_after_its_coordinates_and_belongs_to_its_task() -> None:
    name = job_name("simulate", {"scenario": "low", "on": True})
    assert name == "simulate[scenario=low,on=true]"
    assert {task_of(job) for job in (name, f"{name}#2", "simulate", "simulate#12")} == {"simulate"}


def test_templates_name_axes_and_keep_formats() -> None:
    assert fields_in("out/{scenario}/{year:04d}.nc") == ["scenario", "year"]
    assert filled_in("out/{scenario}/{year:04d}-{on}.nc", {"scenario": "a", "year": 7, "on": False}) == (
        "out/a/0007-false.nc"
    )
