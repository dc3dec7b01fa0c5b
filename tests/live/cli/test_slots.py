"""``scalable slots``, and what makes several runs of ``scalable run`` one sweep."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalable.cli.main import main
from tests.helpers.cli.slots import folder

__all__ = ["folder"]


def test_an_asset_runs_here_whatever_the_target_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "--sweep", "trial", "--asset", "A", "--here", "--format", "json"]
    assert main(arguments) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["complete"], done["expected"], done["computed"]) == (True, 4, 4)
    assert main(["results", "trial"]) == 0
    assert main(["results", "trial", "--check"]) == 1
    assert "4 of 8 rows, incomplete" in capsys.readouterr().out
    assert main([*arguments[:4], "B", *arguments[5:]]) == 0
    assert main(["results", "trial", "--check", "--format", "json"]) == 0
