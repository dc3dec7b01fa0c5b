"""Sessions one after the other in storms: nothing is lost, wrong or left behind, and the driver does not grow.

The long form is ``python -m benchmarks.soak``, with sweeps of the shipped workload among them.
"""

from __future__ import annotations

from benchmarks.soak import soak
from benchmarks.soaking import SHORT

from tests.helpers.session.builders import Project


def test_sessions_in_storms_lose_nothing_fail_in_nothing_and_leave_nothing(project: Project) -> None:
    found = soak(SHORT)
    assert not found["problems"]
    tasks, _ = found["sessions"]
    assert tasks["stuck"] or tasks["retries"], "the task that hangs was ended, as stuck or by the storm, and run again"
    assert found["faults made"] >= len(SHORT), found["sessions"]
    assert found["rows and results"] == sum(one["expected"] for one in found["sessions"])
