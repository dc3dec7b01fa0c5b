"""The command line when things are odd: strange names, narrow screens, closed pipes, full disks and interruptions."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.helpers.cli.bad_luck import put
from tests.helpers.cli.commands import Call, call
from tests.helpers.cli.examples import EXAMPLE, example

__all__ = ["call", "example"]

SCENARIOS = [
    *("ftf-normal", "ftf-heavy", "discovery", "wfrb"),
    *("ftf-normal+discovery", "ftf-normal+wfrb", "ftf-heavy+wfrb", "worst-case"),
]

OPTIONS = ["A permanent node", "B compute pool", "B on one node", "C bigger permanent node"]

QUESTIONS = ["17 assets, one sweep", "17 assets on PRO2-L", "two strategies at once", "always-on trading pool"]

SWEEPS = ["calibration", "timeframe", "fold_size", "n_features", "classification_mode"]

MARKUP = """version: 1
project: {name: p}
nodes: {"[/red]node": {cpu: 16, memory: 64GiB, price: 0.1644 EUR/h}}
pools: {"[/red]pool": {node: "[/red]node", max: 6}}
profiles:
  "[bold]profile[/bold]": {request: {cpu: 2, memory: 2GiB}, limit: {cpu: 4, memory: 8GiB}}
sweeps:
  "[/red]x": {factor: calibration, assets: ["[/b]a"], run_minutes: 3, profile: "[bold]profile[/bold]"}
  "[bold]y[/bold]": {factor: timeframe, assets: ["[/b]a"], run_minutes: 3, deadline: 1s}
scenarios: {"[/red]scenario": {sweeps: {"[/red]x": 2}}}
budget:
  monthly: 200 EUR
  fixed: {"[/red]disk": 3 EUR}
  months: {"[bold]month[/bold]": {"[/red]scenario": {sessions: 1, hours: 1}}}
  options:
    "[/red]option": {sweep: "[/red]x", pool: "[/red]pool", workers: 1, stated: {hours: 9}}
    "[bold]other[/bold]": {sweep: "[/red]x", pool: "[/red]pool", workers: 2}
  growth: {"[/red]question": {sweeps: {"[bold]y[/bold]": 30}}}
"""


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("plan",), ["[/red]x", "[bold]y[/bold]", "[bold]profile[/bold]"]),
        (("plan", "--sweep", "[/red]x"), ["[/red]x", "[/red]pool", "[/red]node", "[bold]profile[/bold]"]),
        (("forecast", "timeline", "--sweep", "[bold]y[/bold]"), ["[bold]y[/bold]", "[/red]pool"]),
        (("forecast", "margins"), ["[/red]scenario"]),
        (("forecast", "options"), ["[/red]option", "[bold]other[/bold]", "[/red]option: stated are 9 h"]),
        (("forecast", "month"), ["[bold]month[/bold]", "[/red]scenario", "[/red]disk"]),
        (("forecast", "growth"), ["[/red]question", "[/red]node"]),
        (("forecast", "acceptance"), ["[bold]y[/bold] takes", "[/red]scenario"]),
    ],
    ids=lambda value: value[1] if len(value) > 1 and value[0] == "forecast" else None,
)
@pytest.mark.parametrize("columns", ["120", "60"])
def test_brackets_in_names_are_shown_as_they_are(
    call: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    names: list[str],
    columns: str,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    put(tmp_path, MARKUP)
    out = " ".join(call(*arguments).out.split())
    assert [name for name in names if name not in out] == []


def test_brackets_in_what_was_asked_for_are_shown_as_they_are(call: Call, tmp_path: Path) -> None:
    put(tmp_path, MARKUP)
    refused = call("plan", "--sweep", "[/red]nothing")
    assert refused.status == 2
    assert "sweep '[/red]nothing' is not defined" in refused.err
    assert "cannot read [/red].yaml" in call("plan", "[/red].yaml").err


@pytest.mark.parametrize("name", ["\\e[31mred", "bell\\a", "back\\b", "\\x9b31m"])
def test_control_characters_in_names_are_refused_and_not_printed(call: Call, tmp_path: Path, name: str) -> None:
    put(tmp_path, MARKUP.replace("[/red]scenario", name))
    refused = call("validate")
    assert refused.status == 1
    assert "has a control character" in refused.err
    assert not [c for c in refused.out + refused.err if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160]


@pytest.mark.parametrize("columns", ["80", "40"])
@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("forecast", "margins"), SCENARIOS),
        (("forecast", "options"), OPTIONS),
        (("forecast", "growth"), QUESTIONS),
        (("plan",), SWEEPS),
        (("plan", "--sweep", "calibration"), ["calibration", "balance, safe", "7 min 5 s", "EUR 0.12", "CPU margin"]),
    ],
    ids=["margins", "options", "growth", "plan", "plan of a sweep"],
)
def test_nothing_is_cut_on_a_narrow_screen(
    example: Call, monkeypatch: pytest.MonkeyPatch, columns: str, arguments: tuple[str, ...], names: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out = example(*arguments).out
    assert max(map(len, out.splitlines())) <= int(columns)
    assert "…" not in out
    lines = [line.strip(" ▸") for line in out.splitlines()]
    assert [name for name in names if not any(name in line for line in lines)] == []


@pytest.mark.parametrize("columns", ["80", "40"])
def test_every_scenario_has_its_status_on_a_narrow_screen(
    example: Call, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    wanted = [row["status"] for row in example("forecast", "margins", "--format", "json").json["rows"]]
    monkeypatch.setenv("COLUMNS", columns)
    lines = example("forecast", "margins").out.splitlines()
    assert [line.strip() for line in lines if line in SCENARIOS] == SCENARIOS
    assert [line.split()[1] for line in lines if line.startswith("  status ")] == wanted


def test_a_node_that_costs_nothing_is_no_reason_to_fail(call: Call, tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert "price: 0.1644 EUR/h" in text
    put(tmp_path, text.replace("price: 0.1644 EUR/h", "price: 0 EUR/h"))
    shown = call("forecast", "growth")
    assert shown.status == 0
    assert "EUR 0.00/h" in shown.out
    rows = {row["question"]: row for row in call("forecast", "growth", "--format", "json").json["rows"]}
    assert rows["17 assets, one sweep"]["hourly"] == {"amount": 0.0, "currency": "EUR"}
    assert rows["17 assets on PRO2-L"]["hourly"] == {"amount": 0.99, "currency": "EUR"}
    assert call("forecast", "options").status == call("forecast", "month").status == 0


@pytest.mark.parametrize("command", [("plan",), ("forecast", "timeline")], ids=" ".join)
@pytest.mark.parametrize("seed", ["-1", "abc", "", "1.5", "٣", "9" * 30])
def test_a_seed_that_is_no_whole_number_is_wrong_use(example: Call, command: tuple[str, ...], seed: str) -> None:
    refused = example(*command, f"--seed={seed}")
    assert (refused.status, refused.out) == (2, "")
    assert f"--seed is {seed!r}; write a whole number from 0" in refused.err


def test_init_below_a_file_is_wrong_use_and_leaves_the_file_alone(call: Call, tmp_path: Path) -> None:
    put(tmp_path, "mine", "notes")
    refused = call("init", "--force", "notes/scalable.yaml")
    assert refused.status == 2
    assert "cannot write notes/scalable.yaml: Not a directory" in refused.err
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
    assert (tmp_path / "notes").read_text(encoding="utf-8") == "mine"


def test_init_does_not_replace_what_is_not_a_file(call: Call, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        refused = call("init", "--force", name)
        assert refused.status == 2
        assert f"{name} is not a file" in refused.err
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe"]


OVERLAYS = """version: 1
project: {name: p}
targets:
  first: {provider: local}
  second: {provider: local, overlay: named}
nodes: {M: {cpu: 16, memory: 64GiB, price: 0.1644 EUR/h}}
pools: {c: {node: M, max: 6}}
overlays:
  named: {pools: {c: {max: -1}}}
  unused: {pools: {c: {node: N}}, bogus: 3}
"""


def test_validate_checks_the_overlays_of_all_targets_and_of_none(call: Call, tmp_path: Path) -> None:
    put(tmp_path, OVERLAYS)
    found = call("validate", "--format", "json")
    assert found.status == 1
    assert [(error["line"], error["path"]) for error in found.json["errors"]] == [
        (9, "pools.c.max"),
        (10, "pools.c.node"),
        (10, "bogus"),
    ]
    assert call("validate", "--target", "first").status == 0, "only what was asked for"
    assert call("validate", "--target", "second").status == 1
