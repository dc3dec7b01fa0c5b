"""K1: what an operator does or the system does by itself when things go wrong, each within the time the sources give.

The scenarios, with what must hold in each, are in ``benchmarks/operations.py``, which also writes their times down.
"""

from __future__ import annotations

import pytest
from benchmarks.operations import OPERATIONS

from tests.helpers.session.builders import Project


@pytest.mark.parametrize("name", OPERATIONS)
def test_work_goes_on_within_the_time_allowed(project: Project, name: str) -> None:
    operation = OPERATIONS[name]
    assert operation.carry_out() < operation.allowed_s
