"""What is shown while a sweep runs, and what its commands say when rows failed or a word is not known."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from scalable.cli.commands.results import show_variants
from scalable.cli.commands.status import how_far
from scalable.cli.progress import described, news
from scalable.observe.words import step
from tests.helpers.cli.commands import Call, call
from tests.helpers.sweeps.gates.builders import an_outcome
from tests.helpers.sweeps.gates.stores import a_folder

__all__ = ["call"]

SWEEP = {"status": "running", "there": 9, "rows": 9, "expected": 36, "units": 4, "units_done": 1, "failed": 0}


def a_status(*notes: str, **given: Any) -> dict[str, Any]:
    runs = [{"run": "A", "worker": "w", "note": note, "step": 3, "of": 25, "memory": 2**20} for note in notes]
    counts = {"done": 1, "running": 2, "waiting": 1, "failed": 0}
    workers = {"standard": {"live": 2, "busy": 2, "pending": 0}}
    told: dict[str, Any] = {"workers": workers, "tasks": {"standard": counts}, "runs": runs}
    told |= {"sweeps": {"s": SWEEP}, "cost": None, "elapsed_s": 12.5, "left_s": 30.0, "rate_per_min": 96.7}
    return {**told, "findings": [], "retries": 0, **given}


def test_a_sweeps_line_has_a_bar_rows_units_and_how_far_its_runs_are() -> None:
    line = described(a_status("trial 3/25", "trial 3/25"), 79).plain
    assert line.endswith("18/36 rows  1/4 jobs  trial 3/25, 3/25  12.5 s, 30 s left")
    assert line.startswith("█") and len(line) <= 79
    assert "tasks a minute" not in line  # of jobs, which are not what is counted


def test_a_row_that_failed_is_not_done() -> None:
    sweeps = {"s": SWEEP | {"failed": 2}}
    assert "16/36 rows  1/4 jobs" in described(a_status(sweeps=sweeps), 79).plain


def test_of_many_workers_their_number_is_shown_and_not_the_steps_of_some() -> None:
    many = {"standard": {"live": 13, "busy": 13, "pending": 0}}
    assert "1/4 jobs  13 workers  12.5 s" in described(a_status("trial 3/25", workers=many), 79).plain


def test_what_is_found_is_told_once_however_often_it_comes_and_goes_with_other_figures() -> None:
    told: set[str] = set()
    busy = [
        {"code": "workers-full", "text": f"all 2 model workers are busy: 2 tasks run, {left} wait"} for left in (9, 8)
    ]
    assert news(a_status(findings=busy[:1]), told) == [busy[0]["text"]]
    assert news(a_status(), told) == news(a_status(findings=busy[1:]), told) == []
    other = {"code": "not-connected", "text": "model-1 has not connected for 25 s"}
    assert news(a_status(findings=[busy[1], other]), told) == ["model-1 has not connected for 25 s"]
    assert news(a_status(findings=[{**other, "text": "model-2 has not connected for 25 s"}]), told) != []


def test_a_step_that_the_note_says_is_not_said_again() -> None:
    [run] = a_status("trial 3/25")["runs"]
    assert how_far(run) == "trial 3/25, 1 MiB"
    assert how_far({**run, "note": "trial"}) == "trial 3/25, 1 MiB"
    assert step(run) == step({**run, "note": "trial"}) == "trial 3/25"


def test_a_reason_that_many_rows_failed_for_is_told_once_with_how_to_look_closer(call: Call, tmp_path: Path) -> None:
    a_folder(tmp_path, failing=lambda cell: cell.variant == ("sigmoid",))
    shown = call("results", "calibration").out
    assert shown.count("killed: out of memory") == 1
    assert "sigmoid AAVEUSDC fold 0 cost_bps 10 and 49 other rows: killed" in shown
    assert "scalable debug --sweep calibration --where calibration=sigmoid --where asset=AAVEUSDC" in shown
    assert "scalable run calibration  computes again what failed" in shown


def test_a_metric_that_no_row_has_is_named(call: Call, tmp_path: Path) -> None:
    a_folder(tmp_path)
    path = tmp_path / "scalable.yaml"
    path.write_text(path.read_text().replace("folds: 5,", "folds: 5, metrics: {sharp: higher},"))
    assert "no row has the metric 'sharp' that decides; rows have" in call("decide", "calibration").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("debug", "--sweep", "calibraton"), "sweep 'calibraton' is not defined; known: calibration, forest, trees;"),
        (("debug", "--sweep", "forest", "--asset", "Y"), "asset 'Y' is not defined; known: X"),
        (("debug", "--sweep", "forest", "--variant", "7"), "variant '7' is not defined; known: 200, 50"),
        (("cache", "ls", "--artefacts", "toy.py"), "artefacts: toy.py is a file; name a folder"),
    ],
)
def test_words_that_are_not_known_are_answered_with_those_that_are(
    call: Call, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    a_folder(tmp_path)
    answer = call(*arguments)
    assert answer.status == 2
    assert said in answer.err


@pytest.mark.parametrize(("stated", "best"), [({}, 2), ({"sharpe": "lower"}, 1), ({"exposure": "lower"}, 2)])
def test_the_best_of_a_metric_is_what_the_sweep_calls_better(stated: dict[str, str], best: int) -> None:
    gains = {"isotonic": {"sharpe": 2.0, "exposure": -2.0}, "sigmoid": {"sharpe": -2.0, "exposure": 2.0}}
    text = StringIO()
    screen = Console(file=text, force_terminal=True, color_system="standard", width=100)
    show_variants(screen, replace(an_outcome(gains), metrics=stated))
    [line] = [line for line in text.getvalue().splitlines() if next(iter(stated), "sharpe") in line]
    assert line.count("\x1b[1;32m") == 1
    assert len(line.partition("\x1b[1;32m")[0].split()) - 1 == best


def test_a_cost_may_be_written_with_a_point(call: Call, tmp_path: Path) -> None:
    a_folder(tmp_path)
    assert call("debug", "--sweep", "calibration", "--cost", "30.0", "--fresh").status == 0


def test_the_traceback_of_a_cell_begins_in_the_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from scalable.cli.main import main

    sweep = "{factor: trees, variants: [1, 2], assets: [A], folds: 1, run: 'luckless:score'}"
    (tmp_path / "scalable.yaml").write_text(f"version: 1\nproject: {{name: x}}\nsweeps: {{s: {sweep}}}\n")
    (tmp_path / "luckless.py").write_text("def score(*, asset, trees):\n    raise RuntimeError('no luck')\n")
    monkeypatch.chdir(tmp_path)
    assert main(["debug", "--sweep", "s", "--fresh"]) == 1
    told = capsys.readouterr().err
    assert "RuntimeError: no luck" in told and "luckless.py" in told and "units.py" not in told


def test_a_cell_that_gives_no_row_does_not_finish_under_the_debugger(call: Call, tmp_path: Path) -> None:
    sweep = "{factor: trees, variants: [1, 2], assets: [A], folds: 1, run: 'rowless:score'}"
    (tmp_path / "scalable.yaml").write_text(f"version: 1\nproject: {{name: x}}\nsweeps: {{s: {sweep}}}\n")
    (tmp_path / "rowless.py").write_text("def score(*, trees):\n    return 42 if trees == 1 else {'n': 1, 'f': {2}}\n")
    for variant, said in (("1", "score must return a mapping of metrics"), ("2", "'f' as a set")):
        answer = call("debug", "--sweep", "s", "--variant", variant, "--fresh")
        assert answer.status == 1 and said in answer.err and "finished" not in answer.err


def test_the_locks_there_were_fit_a_terminal_of_80_columns(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_folder(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    call("lock", "calibration", "sigmoid", "--force", "--reason", "a reason that goes on and on " * 9)
    lines = call("lock", "--list").out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    [lock] = [line for line in lines if "sigmoid" in line and "in force" in line]
    assert lock.rstrip().endswith("…") and "forced: a reason" in lock
