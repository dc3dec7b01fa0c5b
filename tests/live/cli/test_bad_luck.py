"""The command line when things are odd: strange names, narrow screens, closed pipes, full disks and interruptions."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.helpers.cli.bad_luck import put
from tests.helpers.cli.examples import EXAMPLE
from tests.helpers.cli.manifests import LOCAL
from tests.helpers.cli.shells import shell
from tests.helpers.waiting import until


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
    assert json.loads(machine.stdout)["grid"] == "3 variants × 2 assets × 2 folds × 3 cost_bps", "nothing is lost"


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


@pytest.mark.parametrize("reader", ["head -1", "true"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_refused_plan_is_refused_whoever_stops_reading(tmp_path: Path, form: str, reader: str) -> None:
    put(tmp_path, re.sub(r"(?m)^budget:\n(  .*\n)+", "budget: {monthly: 0.01}\n", EXAMPLE.read_text(encoding="utf-8")))
    over = "scalable plan --sweep calibration"
    whole = shell(f"{over} --format {form} > /dev/null; echo $?", tmp_path)
    cut = shell(f"{over} --format {form} | {reader} > /dev/null; echo ${{PIPESTATUS[0]}}", tmp_path)
    assert (whole.stdout, cut.stdout) == ("1\n", "1\n")
    assert "Traceback" not in cut.stderr


@pytest.mark.parametrize("unheard", ["2> /dev/full", "2>&1 | exit 7"])
def test_the_status_of_a_command_is_true_although_nobody_hears_why(tmp_path: Path, unheard: str) -> None:
    done = shell(f"scalable validate nothing.yaml {unheard}; echo ${{PIPESTATUS[0]}}", tmp_path)
    assert done.stdout == "2\n"


def test_an_interrupted_command_ends_quietly_with_130(tmp_path: Path) -> None:
    """The command waits for a manifest from a pipe; its other end can be opened as soon as it does."""
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-m", "scalable", "validate", "--manifest", "pipe"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def opened() -> int | None:
        assert process.poll() is None, process.communicate()
        with suppress(OSError):  # ENXIO: nobody reads yet
            return os.open(tmp_path / "pipe", os.O_WRONLY | os.O_NONBLOCK)
        return None

    writing = until(opened)
    assert writing is not None
    with os.fdopen(writing, "wb"):
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:  # Python drops an interrupt that comes while an object is finalised
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_init_on_a_full_disk_keeps_the_old_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    put(tmp_path, "mine")
    done = shell("ulimit -f 0; scalable init --force", tmp_path)
    assert done.returncode == 2
    assert "cannot write scalable.yaml: File too large" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["scalable.yaml"]
    assert (tmp_path / "scalable.yaml").read_text(encoding="utf-8") == "mine"
