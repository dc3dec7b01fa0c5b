"""A budget that is used up ends what a workflow script waits for; on real processes."""

from __future__ import annotations

import time

import pytest

from scalable.cluster.scheduler import TaskStoppedError
from tests.helpers.session.builders import Project
from tests.helpers.waiting import LONG_S, until

A_EURO_A_SECOND = {"processes": True, "cpu_price": "3600 EUR/h", "max_workers": 1}


def test_futures_that_run_wait_or_come_later_fail_with_the_figures(project: Project) -> None:
    """The brake keeps a minute of the price for stopping, so EUR 66 last for about six seconds."""
    with project.session(target=A_EURO_A_SECOND, budget={"monthly": "66 EUR"}) as client:
        slow = client.submit(time.sleep, 600)
        behind = client.submit(time.sleep, 601)
        needs = client.submit(str, slow)
        for future in (slow, behind, needs):
            with pytest.raises(TaskStoppedError, match=r"the budget of EUR 66\.00 is used up: EUR \S+ spent"):
                future.result(timeout=LONG_S)
        assert until(lambda: client.worker_count() == 0)
        with pytest.raises(TaskStoppedError):
            client.submit(abs, -1).result(timeout=LONG_S)
    assert not project.workers()
