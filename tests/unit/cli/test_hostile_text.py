"""What jobs and manifests say reaches a terminal, or a shell, as text only."""

from __future__ import annotations

import pytest

from scalable.axes import Axis
from scalable.cli.commands import debug, results, run
from scalable.cli.output import console
from scalable.store import Row
from scalable.store.rows import RowStatus
from scalable.sweeps.grid import Grid
from scalable.sweeps.results import Outcome

OBEYED = "\x1b]0;taken\x07\x1b[2J\x9b5n\rgone"


def raised() -> Exception:
    try:
        raise ValueError(OBEYED)
    except ValueError as error:
        return error


def test_a_terminal_obeys_nothing_in_the_error_of_a_job(capsys: pytest.CaptureFixture[str]) -> None:
    debug.report(raised(), enter=False)
    run.show_error(raised(), "workflow.py")
    shown = capsys.readouterr().err
    assert shown.count("ValueError: �]0;taken��[2J�5n�gone") == 2
    assert not set(shown) & set("\x1b\x07\x9b\r")


def test_a_suggested_command_quotes_the_name_of_the_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    name = "x; touch taken"
    grid = Grid(compare={"depth": ("1",)}, over=(Axis("asset", ("A",)), Axis("fold", (0, 1))), baseline=("1",))
    row = Row(run_key="0" * 32, sweep=name, run_status=RowStatus.FAILED, error="no")
    found = Outcome(name, grid, tuple((str(cell.block[1]) * 32, cell) for cell in grid), {row.run_key: row}, "1", 0, {})
    results.show_shortfall(console(), found)
    shown = " ".join(capsys.readouterr().out.split())
    assert f"scalable run '{name}' " in shown and f"scalable debug --sweep '{name}' " in shown
