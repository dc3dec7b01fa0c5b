"""Alerts of a real session: each is provoked, told in journal, webhook, live.json and /metrics, and over in the end.

The rules are the real ones with shorter durations. One session has all the troubles at once, since each of them needs
workers, and workers need seconds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from scalable.observe import Journal
from scalable.observe.alerts import RULES
from scalable.observe.metrics import Sample
from scalable.session.operate.alerting import SAY_AFTER_S, Alerting
from tests.helpers.session.alerting import PROVOKED


def test_the_terminal_is_told_once_of_what_lasts_and_of_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def used(share: float) -> list[Sample]:
        return [
            Sample(metric, value, {"worker": f"demeter-{at}", "tag": "demeter"})
            for at in range(7)
            for metric, value in (("scalable_worker_memory_bytes", share), ("scalable_worker_memory_limit_bytes", 1.0))
        ]

    lines: list[str] = []
    with Journal(tmp_path / "journal.jsonl") as journal:
        alerting = Alerting(RULES, journal)
        for now, share in ((0, 0.9), (1, 0.9), (SAY_AFTER_S, 0.9), (20, 0.9), (100, 0.1), (101, 0.9), (102, 0.1)):
            caplog.clear()
            alerting.look(used(share), now)
            lines.append(" | ".join(caplog.messages))
    assert [bool(line) for line in lines] == [False, False, True, False, True, False, False]
    assert lines[2].startswith("demeter-0 uses 90 % of its memory limit, demeter-1 uses 90 %")
    assert "and 2 more; at the limit its job is killed" in lines[2]
    assert lines[4].startswith("over: WorkerMemory, demeter, demeter-0")


def test_every_rule_that_is_not_provoked_here_needs_a_cluster_money_or_much_cpu() -> None:
    left = {rule.name for rule in RULES} - set(PROVOKED)
    assert left == {"WorkerCpu", "NodeCpu", "NodeMemory", "CostNearBudget", "CostOverBudget"}
