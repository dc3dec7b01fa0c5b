"""The command line: what each command prints for people and machines, where it reads from, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.cli.commands import Call, call
from tests.helpers.cli.shells import shell

__all__ = ["call"]


def test_the_bash_completion_is_a_script_bash_can_read(call: Call, tmp_path: Path) -> None:
    (tmp_path / "completion.sh").write_text(call("completion", "bash").out, encoding="utf-8")
    assert shell("bash -n completion.sh", tmp_path).returncode == 0


def test_the_module_runs_as_a_command(tmp_path: Path) -> None:
    assert shell("scalable init --template ftf", tmp_path).returncode == 0
    shown = shell("scalable plan --sweep calibration --format json", tmp_path)
    assert shown.returncode == 0
    assert shown.stderr == ""
    assert json.loads(shown.stdout)["units"] == 25


@pytest.mark.parametrize(
    ("template", "rows", "recommended"),
    [pytest.param("function", 60, "trimmed", marks=pytest.mark.journey), ("models", 120, None)],
)
def test_what_init_writes_runs_to_a_decision(tmp_path: Path, template: str, rows: int, recommended: str | None) -> None:
    assert shell(f"scalable init --template {template}", tmp_path).returncode == 0
    assert shell("scalable validate", tmp_path).returncode == 0
    ran = shell("scalable run --format json", tmp_path)
    assert (ran.returncode, json.loads(ran.stdout)["finished"]) == (0, rows), ran.stderr
    decided = shell("scalable decide --format json", tmp_path)
    assert json.loads(decided.stdout)["recommended"] == recommended


def test_the_exit_status_reaches_the_shell(tmp_path: Path) -> None:
    assert shell("scalable plan", tmp_path).returncode == 2
    (tmp_path / "scalable.yaml").write_text("version: 2\n", encoding="utf-8")
    broken = shell("scalable plan", tmp_path)
    assert broken.returncode == 1
    assert "Traceback" not in broken.stderr


@pytest.mark.parametrize("reader", ["head -1", "true"])
@pytest.mark.parametrize("command", ["admin schema", "completion bash"])
def test_a_reader_that_goes_away_ends_the_command_quietly(tmp_path: Path, command: str, reader: str) -> None:
    ended = shell(f"scalable {command} | {reader}", tmp_path)
    assert ended.stderr == ""
    assert ended.returncode == 0


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("explian uni", "explain"),
        ("incidents shwo 1", "show"),
        ("status --wach", "--watch"),
        ("run --swep=a", "--sweep"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_one_that_was_meant(tmp_path: Path, words: str, meant: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scalable", *words.split()], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.endswith(f"; write {meant}\n")
