"""The alert rules as Prometheus reads them, and their unit tests for ``promtool test rules``.

Both come from the rules that the driver applies itself, so there is one definition. The tests have the rules' real
durations: an alert must be silent until its time is over, fire then, stay for as long as it is kept, and end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from scalable.deploy.document import Document, written
from scalable.observe.alerts import SHARED, Condition, Rule, duration
from scalable.observe.metrics import METRICS

FILE, TEST_FILE = "rules/scalable.yml", "rules/scalable_test.yml"
STEP_S = 15  # between the tests' samples; all durations of the rules are multiples of it
QUIET_S = 120  # before a test's figure crosses its threshold, so that it does so while it is watched
STAYS_S = 120  # how long it stays there after the alert fired

Object = dict[str, Any]


def rules_file(rules: Sequence[Rule]) -> str:
    groups = [{"name": "scalable", "rules": [alert(rule) for rule in rules]}]
    comment = "Made by scalable admin deploy prometheus; a threshold is set in the manifest: alerts."
    return written([Document({"groups": groups}, (comment,))])


def alert(rule: Rule) -> Object:
    content: Object = {"alert": rule.name, "expr": rule.promql()}
    if rule.for_s:
        content["for"] = duration(rule.for_s)
    if rule.keep_s:
        content["keep_firing_for"] = duration(rule.keep_s)
    return {**content, "labels": {"severity": rule.severity.value}, "annotations": rule.annotations()}


def tests_file(rules: Sequence[Rule]) -> str:
    tests = [test for rule in rules for test in tests_of(rule)]
    about: Object = {"rule_files": [FILE.rpartition("/")[2]], "evaluation_interval": f"{STEP_S}s", "tests": tests}
    return written([Document(about, (f"promtool test rules {TEST_FILE}",))])


def tests_of(rule: Rule) -> Iterator[Object]:
    yield course(rule, born=False)
    if rule.when.increase_s is not None:
        yield course(rule, born=True)
    if rule.and_ is not None:
        yield spared(rule, rule.and_)


def course(rule: Rule, *, born: bool) -> Object:
    """Return a test of a figure that crosses the threshold and comes back; ``born``: of a counter that is new."""
    fires = QUIET_S + rule.for_s
    over = fires + STAYS_S if rule.when.increase_s is None else QUIET_S + rule.when.increase_s
    ends = over + rule.keep_s
    silent = [QUIET_S - STEP_S, *([fires - STEP_S] if rule.for_s else []), ends]
    firing = [fires, over - STEP_S, *([ends - STEP_S] if rule.keep_s else [])]
    looks = sorted([*((at, False) for at in set(silent)), *((at, True) for at in set(firing))])
    samples = Samples(int(QUIET_S / STEP_S), int((over - QUIET_S) / STEP_S), int((ends - over) / STEP_S) + 1)
    return {
        "name": f"{rule.name}{', a counter that begins' if born else ''}",
        "interval": f"{STEP_S}s",
        "input_series": [
            {"series": series(name, rule.when.metric), "values": values}
            for name, values in inputs(rule, samples, born=born).items()
        ],
        "alert_rule_test": [
            {
                "eval_time": f"{at:g}s",
                "alertname": rule.name,
                "exp_alerts": [expected(rule)] if fired else [],
            }
            for at, fired in looks
        ],
    }


def spared(rule: Rule, other: Condition) -> Object:
    """Return a test in which only the first of two conditions holds: nothing is told, however long that lasts."""
    length = int((QUIET_S + rule.for_s) / STEP_S)
    values = {rule.when.metric: bad(rule.when), other.metric: good(other)}
    return {
        "name": f"{rule.name}, only the first condition",
        "interval": f"{STEP_S}s",
        "input_series": [
            {"series": series(name, rule.when.metric), "values": f"{value:g}x{length}"}
            for name, value in values.items()
        ],
        "alert_rule_test": [{"eval_time": f"{length * STEP_S}s", "alertname": rule.name, "exp_alerts": []}],
    }


@dataclass(frozen=True, slots=True)
class Samples:
    """The numbers of samples before, while and after a condition holds."""

    before: int
    during: int
    after: int

    def values(self, good: float, bad: float) -> str:
        return f"{good:g}x{self.before - 1} {bad:g}x{self.during - 1} {good:g}x{self.after}"

    def counter(self, count: float, *, born: bool) -> str:
        before = f"_x{self.before}" if born else f"0x{self.before - 1}"  # a value is there once more than it says
        return f"{before} {count:g}x{self.during + self.after}"

    def steady(self, value: float) -> str:
        return f"{value:g}x{self.before + self.during + self.after}"


def inputs(rule: Rule, samples: Samples, *, born: bool) -> dict[str, str]:
    when = rule.when
    if when.increase_s is not None:
        return {when.metric: samples.counter(bad(when), born=born)}
    series = {when.metric: samples.values(good(when), bad(when))}
    if when.over is not None:
        series[when.over] = samples.steady(1)
    if rule.and_ is not None:
        series[rule.and_.metric] = samples.steady(bad(rule.and_))
    return series


def bad(condition: Condition) -> float:
    """Return a figure for which the condition holds, of few digits, as it is written into the test."""
    match condition.sign:
        case "==":
            return condition.threshold
        case "<":
            return condition.threshold / 2
        case ">":
            more = condition.threshold * 1.05 + 0.01 if condition.over is not None else condition.threshold + 60
            return float(f"{more:g}")


def good(condition: Condition) -> float:
    match condition.sign:
        case "==" | "<":
            return condition.threshold + 1
        case ">":
            return 0


def series(name: str, metric: str) -> str:
    pairs = ", ".join(f'{label}="{value}"' for label, value in labels(metric).items())
    return f"{name}{{{pairs}}}"


def labels(metric: str) -> dict[str, str]:
    return {name: f"a-{name}" for name in (*SHARED, *METRICS[metric].labels)}


def expected(rule: Rule) -> Object:
    label_values = labels(rule.when.metric)
    value = as_prometheus_writes(bad(rule.when), rule.unit)
    annotations = {
        "summary": rule.summary.format_map({**label_values, "value": value}),
        "remedy": rule.remedy.format_map(label_values),
    }
    return {"exp_labels": {"severity": rule.severity.value, **label_values}, "exp_annotations": annotations}


def as_prometheus_writes(value: float, unit: str) -> str:
    """Return what its humanizePercentage and humanizeDuration make of these tests' values, of a minute and more."""
    if unit == "share":
        return f"{value * 100:.4g}%"
    if unit == "number":
        return f"{value:g}"
    minutes, seconds = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s")]
    first = next(at for at, (number, _) in enumerate(parts) if number)
    return " ".join(f"{number}{letter}" for number, letter in parts[first:])
