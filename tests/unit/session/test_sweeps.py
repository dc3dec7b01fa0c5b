"""A sweep on a real local cluster: nothing twice, nothing lost, nothing called complete that is not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from scalable.errors import ScalableError, UnknownNameError
from scalable.session.sweeps import counted
from tests.helpers.session.sweeps import Sweeps, sweeps

__all__ = ["sweeps"]


@pytest.mark.parametrize(
    ("told", "buys"),
    [(7, 7), (7.0, 7), (np.int64(7), 7), (7.5, None), (-1, None), (True, None), ("7", None)]
    + [(odd, None) for odd in (math.inf, -math.inf, math.nan)],
)
def test_buys_that_are_no_count_are_left_out_and_end_no_sweep(told: object, buys: int | None) -> None:
    assert counted(told) == buys


def test_a_workload_that_is_not_there_is_refused_before_anything_starts(sweeps: Sweeps) -> None:
    with pytest.raises(ScalableError, match="no_such_module"):
        sweeps.run(run="no_such_module:work")
    assert sweeps.project.runs() == []


def test_a_sweep_that_is_not_there_is_refused_with_those_there_are(sweeps: Sweeps) -> None:
    with pytest.raises(UnknownNameError, match="sweep 'trail' is not defined; known: trial"):
        sweeps.session().run_sweep("trail")
