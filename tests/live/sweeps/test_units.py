"""A unit computes each distinct stage once, goes on from what is kept, and tells of failures row by row."""

from __future__ import annotations

import subprocess
import sys

from tests.helpers.sweeps.units import nothing_remembered

__all__ = ["nothing_remembered"]


FORKING = """
import os, sys
from scalable.sweeps.stages import stage
from scalable.sweeps.units import Evaluation, RowWork
from scalable.sweeps.workload import Keys, Workload

@stage(reads=("asset",), keep=False)
def forked(*, asset):
    print(asset, flush=True)
    child = os.fork()
    if not child and asset == "RAISES":
        raise ValueError("only in the child")
    if child:
        os.waitpid(child, 0)
    return {"score": 1.0}

work = Workload((forked,))
cells = [RowWork("0" * 32, {"asset": name}, Keys(work).of({"asset": name})) for name in ("RAISES", "RETURNS", "LAST")]
rows = Evaluation(work, None)
print([rows.row(cell).error for cell in cells])
"""


def test_a_fork_that_comes_out_of_a_stage_computes_no_further_row() -> None:
    told = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["RAISES", "RETURNS", "LAST", "['', '', '']"]
