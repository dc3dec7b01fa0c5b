"""The command line when things are odd: strange names, narrow screens, closed pipes, full disks and interruptions."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_commands import EXAMPLE, LOCAL, Call, call, example, shell

__all__ = ["call", "example"]  # fixtures

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


def put(folder: Path, text: str, name: str = "scalable.yaml") -> None:
    (folder / name).write_text(text, encoding="utf-8")


# Names


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
    assert "no sweep is called '[/red]nothing'" in refused.err
    assert "cannot read [/red].yaml" in call("plan", "[/red].yaml").err


@pytest.mark.parametrize("name", ["\\e[31mred", "bell\\a", "back\\b", "\\x9b31m"])
def test_control_characters_in_names_are_refused_and_not_printed(call: Call, tmp_path: Path, name: str) -> None:
    put(tmp_path, MARKUP.replace("[/red]scenario", name))
    refused = call("validate")
    assert refused.status == 1
    assert "has a control character" in refused.err
    assert not [c for c in refused.out + refused.err if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160]


# Narrow screens


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


# Files and streams


def test_a_manifest_is_read_from_standard_input(tmp_path: Path) -> None:
    done = shell(f"cat '{EXAMPLE}' | scalable validate /dev/stdin", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "/dev/stdin is good: 2 targets, 3 pools, 5 sweeps" in done.stdout


def test_a_file_without_end_is_refused_as_too_large_within_little_memory(tmp_path: Path) -> None:
    done = shell("ulimit -v 2000000; scalable validate /dev/zero", tmp_path)
    assert done.returncode == 1
    assert "/dev/zero: too large for a manifest; at most 1024 KiB are read" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_terminal_without_unicode_gets_text_and_valid_json(tmp_path: Path) -> None:
    put(tmp_path, LOCAL.replace("small", "größe").replace("X, Y", "Ä, Ö"))
    ascii_only = "PYTHONIOENCODING=ascii scalable plan --sweep calibration"
    text, machine = shell(ascii_only, tmp_path), shell(f"{ascii_only} --format json", tmp_path)
    assert (text.returncode, text.stderr) == (0, "")
    assert "rows = 3 variants ? 2 assets" in text.stdout
    assert (machine.returncode, machine.stderr) == (0, "")
    assert json.loads(machine.stdout)["grid"] == "3 variants × 2 assets × 2 folds × 3 costs", "nothing is lost"


@pytest.mark.parametrize(
    ("command", "closed", "status"),
    [("plan", ">&-", 0), ("plan --format json", ">&- 2>&-", 0), ("validate nothing.yaml", "2>&-", 2)],
)
def test_closed_output_is_no_error_by_itself(tmp_path: Path, command: str, closed: str, status: int) -> None:
    put(tmp_path, LOCAL)
    done = shell(f"scalable {command} {closed}", tmp_path)
    assert done.returncode == status
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("arguments", ["plan --sweep calibration", "plan --format json"])
def test_a_reader_that_has_enough_is_no_error(tmp_path: Path, arguments: str) -> None:
    put(tmp_path, EXAMPLE.read_text(encoding="utf-8"))
    done = shell(f"scalable {arguments} | head -1; echo ${{PIPESTATUS[0]}} >&2", tmp_path)
    assert done.stdout.count("\n") == 1
    assert done.stderr == "0\n"


@pytest.mark.parametrize("unheard", ["2> /dev/full", "2>&1 | exit 7"])
def test_the_status_of_a_command_is_true_although_nobody_hears_why(tmp_path: Path, unheard: str) -> None:
    done = shell(f"scalable validate nothing.yaml {unheard}; echo ${{PIPESTATUS[0]}}", tmp_path)
    assert done.stdout == "2\n"


def test_an_interrupted_command_ends_quietly_with_130(tmp_path: Path) -> None:
    """The command waits for a manifest from a pipe; opening the other end shows that it does."""
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-m", "scalable", "validate", "pipe"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with (tmp_path / "pipe").open("wb"):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, b"", b"")


# Values


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


# init


def test_init_on_a_full_disk_keeps_the_old_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    put(tmp_path, "mine")
    done = shell("ulimit -f 0; scalable init --force", tmp_path)
    assert done.returncode == 2
    assert "cannot write scalable.yaml: File too large" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["scalable.yaml"]
    assert (tmp_path / "scalable.yaml").read_text(encoding="utf-8") == "mine"


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


# validate

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
