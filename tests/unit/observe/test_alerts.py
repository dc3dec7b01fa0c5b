"""Alerts begin when a condition has held long enough, end when it has been over long enough, and say what to do."""

from __future__ import annotations

import pytest

from scalable.observe.alerts import KEEP_S, RECENT_S, RULES, AlertChange, AlertWatch, adjusted, scaled
from scalable.observe.metrics import METRICS, Sample

BY_NAME = {rule.name: rule for rule in RULES}

WORKER = {"worker": "demeter-1", "tag": "demeter"}


def memory(used: float, limit: float = 100.0) -> list[Sample]:
    return [
        Sample("scalable_worker_memory_bytes", used, WORKER),
        Sample("scalable_worker_memory_limit_bytes", limit, WORKER),
    ]


def cpu(used: float) -> list[Sample]:
    return [
        Sample("scalable_worker_cpu_cores", used, WORKER),
        Sample("scalable_worker_cpu_limit_cores", 2.0, WORKER),
    ]


def told(changes: list[AlertChange]) -> list[tuple[str, str]]:
    return [(change.rule.name, change.state) for change in changes]


def test_a_rule_without_a_duration_fires_at_once_and_tells_who_how_much_and_what_to_do() -> None:
    watch = AlertWatch()
    assert watch.evaluate(memory(80), 0) == []
    (change,) = watch.evaluate(memory(85), 5)
    assert (change.rule.name, change.state, change.since) == ("WorkerMemory", "firing", 5)
    assert change.finding.message == "demeter-1 uses 85 % of its memory limit"
    assert change.to_record() == {
        "alert": "WorkerMemory",
        "severity": "warning",
        "state": "firing",
        "text": change.finding.message,
        "remedy": change.finding.remedy,
        "labels": WORKER,
    }
    assert watch.evaluate(memory(90), 10) == []
    assert [(one.rule.name, one.since, one.value) for one in watch.firing] == [("WorkerMemory", 5, 0.9)]


def test_a_rule_with_a_duration_fires_only_when_it_was_so_all_the_time() -> None:
    watch = AlertWatch()
    assert watch.evaluate(cpu(1.9), 0) == []
    assert watch.evaluate(cpu(1.9), 599) == []
    assert watch.evaluate(cpu(0.1), 599.5) == []
    assert watch.evaluate(cpu(1.9), 600) == []
    assert watch.evaluate(cpu(1.9), 1199) == []
    assert told(watch.evaluate(cpu(1.9), 1200)) == [("WorkerCpu", "firing")]


def test_an_alert_ends_once_its_condition_has_been_over_for_a_while() -> None:
    watch = AlertWatch()
    watch.evaluate(memory(90), 0)
    assert watch.evaluate(memory(10), KEEP_S - 1) == []
    assert watch.evaluate(memory(90), KEEP_S) == [], "it swung back: the same alert goes on"
    assert watch.evaluate(memory(10), 2 * KEEP_S - 1) == []
    (change,) = watch.evaluate(memory(10), 2 * KEEP_S)
    assert (change.state, change.since) == ("resolved", 0)
    assert watch.firing == []


def test_an_alert_ends_when_its_worker_is_gone() -> None:
    watch = AlertWatch()
    watch.evaluate(memory(90), 0)
    assert told(watch.evaluate([], KEEP_S)) == [("WorkerMemory", "resolved")]


def test_a_part_of_nothing_is_no_alert() -> None:
    assert AlertWatch().evaluate(memory(90, 0), 0) == []
    assert AlertWatch().evaluate(memory(90)[:1], 0) == []


def test_stuck_needs_silence_and_no_rows() -> None:
    def seen(idle: float, rows: float) -> list[Sample]:
        return [
            Sample("finetune_pod_idle_seconds", idle, WORKER),
            Sample("finetune_rows_persisted_per_min", rows, WORKER),
        ]

    assert AlertWatch().evaluate(seen(301, 1), 0) == []
    assert AlertWatch().evaluate(seen(300, 0), 0) == []
    (change,) = AlertWatch().evaluate(seen(360, 0), 0)
    assert (change.rule.name, change.rule.severity) == ("Stuck", "page")
    assert change.finding.message == "what runs on demeter-1 has given no sign of life for 6 min"
    assert "scalable ops dump demeter-1" in change.finding.remedy


def test_a_retry_is_told_and_forgotten_after_a_while() -> None:
    def counted(value: float) -> list[Sample]:
        return [Sample("scalable_retries_total", value, {"tag": "demeter", "cause": "killed"})]

    watch = AlertWatch()
    assert watch.evaluate(counted(3), 0) == [], "those before anyone looked are not new"
    assert told(watch.evaluate(counted(4), 10)) == [("RetriesUsed", "firing")]
    assert watch.evaluate(counted(4), RECENT_S) == []
    assert told(watch.evaluate(counted(4), 10 + RECENT_S + KEEP_S)) == [("RetriesUsed", "resolved")]


def test_a_counter_that_appears_later_began_at_nothing() -> None:
    watch = AlertWatch()
    watch.evaluate([], 0)
    appeared = [Sample("scalable_retries_total", 1, {"tag": "demeter", "cause": "killed"})]
    assert told(watch.evaluate(appeared, 5)) == [("RetriesUsed", "firing")]


@pytest.mark.parametrize(
    ("share", "names"), [(0.8, []), (0.81, ["CostNearBudget"]), (1.01, ["CostNearBudget", "CostOverBudget"])]
)
def test_money_is_told_when_near_the_budget_and_when_over_it(share: float, names: list[str]) -> None:
    spent = Sample("scalable_cost_month_total", 500 * share, {"currency": "EUR"})
    budget = Sample("scalable_budget_month", 500, {"currency": "EUR"})
    assert [change.rule.name for change in AlertWatch().evaluate([spent, budget], 0)] == names


def test_thresholds_of_ones_own_replace_the_known_ones_and_nothing_turns_a_rule_off() -> None:
    own = {rule.name: rule for rule in adjusted({"WorkerMemory": 0.95, "RunLong": 7200, "Stuck": None})}
    assert own["WorkerMemory"].when.threshold == 0.95
    assert own["RunLong"].when.threshold == 7200
    assert "Stuck" not in own
    assert len(own) == len(RULES) - 1


def test_scaled_rules_are_the_same_in_less_time() -> None:
    quick = {rule.name: rule for rule in scaled(0.01)}
    assert quick["WorkerCpu"].for_s == 6
    assert quick["WorkerCpu"].when == BY_NAME["WorkerCpu"].when
    assert quick["Stuck"].when.threshold == 3
    assert quick["RetriesUsed"].when.increase_s == 3
    assert quick["PendingWork"].keep_s == KEEP_S / 100


def test_every_rule_names_metrics_of_the_catalogue_and_labels_they_have() -> None:
    assert len(BY_NAME) == len(RULES)
    for rule in RULES:
        for condition in filter(None, (rule.when, rule.and_)):
            assert condition.metric in METRICS
            assert condition.over is None or METRICS[condition.over].labels == METRICS[condition.metric].labels
        labels = dict.fromkeys(METRICS[rule.when.metric].labels, "one")
        assert rule.finding(labels, 1.0).remedy
