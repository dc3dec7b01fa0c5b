"""Alerts, which people get without asking: the rules, and a watch that applies them to samples. Pure.

One definition for all: the driver applies these rules itself, and as PromQL they are given to Prometheus.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Literal, assert_never

from scalable.findings import Finding, Severity
from scalable.observe.metrics import METRICS, Sample
from scalable.quantities import Duration, percent

Sign = Literal[">", "<", "=="]
Unit = Literal["share", "seconds", "number"]
Labels = tuple[tuple[str, str], ...]

WARNING, PAGE = Severity.WARNING, Severity.PAGE
KEEP_S = 60.0  # a figure that swings around its threshold is one alert, not a hundred
RECENT_S = 300.0  # what a counter's increase is counted over
SHARED = ("run", "project")  # labels that whoever collects adds; an alert must say whose it is
HUMANE = {"share": " | humanizePercentage", "seconds": " | humanizeDuration", "number": ""}


@dataclass(frozen=True, slots=True)
class Condition:
    """A figure, or a figure as a part of another one with the same labels, compared with a threshold."""

    metric: str
    sign: Sign
    threshold: float
    over: str | None = None
    """Divide by this metric; where that is 0 or unknown, nothing is said."""
    increase_s: float | None = None
    """Compare by how much it grew within so many seconds."""

    def met(self, value: float) -> bool:
        match self.sign:
            case ">":
                return value > self.threshold
            case "<":
                return value < self.threshold
            case "==":
                return value == self.threshold
            case _:
                assert_never(self.sign)

    def promql(self) -> str:
        worst = "max" if self.sign == ">" else "min"  # driver and worker may both tell it
        kept = f"{worst} by ({', '.join((*SHARED, *METRICS[self.metric].labels))})"
        value = f"{kept} ({f'{self.metric} / {self.over}' if self.over else self.metric})"
        if self.increase_s is not None:  # increase() would miss what a counter that was not there before begins with
            before = f"{kept} ({self.metric} offset {duration(self.increase_s)})"
            value = f"{value} - ({before} or 0 * {value})"
        return f"{value} {self.sign} {self.threshold:.12g}"


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    when: Condition
    for_s: float
    """How long it must be so without a break."""
    severity: Severity
    summary: str
    """With the labels' values in braces, and ``{value}``."""
    remedy: str
    unit: Unit = "number"
    """Of the value, so that it is told as people read it."""
    and_: Condition | None = None
    """Must hold as well, for the same labels."""
    keep_s: float = KEEP_S
    """How long it must be over before that is told."""

    def promql(self) -> str:
        """Return the condition for Prometheus; how long it must hold stands beside it in a rule."""
        first = self.when.promql()
        return f"({first}) and ({self.and_.promql()})" if self.and_ else first

    def finding(self, labels: Mapping[str, str], value: float) -> Finding:
        """Return what the rule says where its condition holds with this value."""
        about = next((labels[name] for name in METRICS[self.when.metric].labels), "")
        text = self.summary.format_map({**labels, "value": value_text(value, self.unit)})
        remedy = self.remedy.format_map({name: quote(label) for name, label in labels.items()})  # commands to copy
        return Finding(self.name, self.severity, about, text, remedy)

    def annotations(self) -> dict[str, str]:
        """Return summary and remedy as templates of Prometheus."""
        names = {name: f"{{{{ $labels.{name} }}}}" for name in METRICS[self.when.metric].labels}
        names["value"] = f"{{{{ $value{HUMANE[self.unit]} }}}}"
        return {"summary": self.summary.format_map(names), "remedy": self.remedy.format_map(names)}

    def scaled(self, factor: float) -> Rule:
        """Return the same with all durations so many times as long, also those that figures are compared with."""
        return replace(
            self, when=shorter(self.when, factor), and_=shorter(self.and_, factor) if self.and_ else None,
            for_s=self.for_s * factor, keep_s=self.keep_s * factor,
        )  # fmt: skip


RULES: tuple[Rule, ...] = (
    Rule(
        "WorkerCpu", Condition("scalable_worker_cpu_cores", ">", 0.9, over="scalable_worker_cpu_limit_cores"),
        600, WARNING, "{worker} uses {value} of its CPU limit",
        "give its profile or component more cpus, if runs take longer than they should", "share",
    ),
    Rule(
        "WorkerMemory", Condition("scalable_worker_memory_bytes", ">", 0.8, over="scalable_worker_memory_limit_bytes"),
        0, WARNING, "{worker} uses {value} of its memory limit",
        "at the limit its job is killed and tried again on the larger profile; give the profile more memory", "share",
    ),
    Rule(
        "NodeCpu", Condition("scalable_node_cpu_cores", ">", 0.85, over="scalable_node_cpu_capacity_cores"),
        300, WARNING, "{node} uses {value} of its CPUs",
        "place fewer workers on a node: raise cpus of the profile, or policies.margins.cpu", "share",
    ),
    Rule(
        "NodeMemory", Condition("scalable_node_memory_bytes", ">", 0.75, over="scalable_node_memory_capacity_bytes"),
        60, WARNING, "{node} uses {value} of its memory",
        "look with scalable ops workers at who uses it; place fewer workers there: raise policies.margins.ram", "share",
    ),
    Rule(
        "PendingWork", Condition("scalable_pending_tasks", ">", 0),
        300, WARNING, "{value} of {tag} wait and no worker comes",
        "scalable status says what its workers wait for",
    ),
    Rule(
        "ScaleUpSlow", Condition("scalable_scale_up_seconds", ">", 300),
        0, WARNING, "a worker of {tag} was asked for {value} ago and is not there",
        "scalable status says what it waits for; scalable doctor checks the target", "seconds",
    ),
    Rule(
        "RunLong", Condition("scalable_run_seconds", ">", 600),
        0, WARNING, "a run of {tag} has been running for {value}",
        "scalable ops workers shows which and how far it is; scalable ops dump shows where it stands", "seconds",
    ),
    Rule(
        "RetriesUsed", Condition("scalable_retries_total", ">", 0, increase_s=RECENT_S),
        0, WARNING, "runs of {tag} were run again: {cause}",
        "scalable report shows which; scalable incidents shows what happened to them",
    ),
    Rule(
        "DependencyDown", Condition("scalable_dependency_up", "==", 0),
        0, WARNING, "the run cannot reach what it needs: {dependency}",
        "start it again, make room on its disk, or correct its URL in the manifest; of a store, scalable status says "
        "where finished rows are meanwhile: in an outbox on disk, or only in the run's memory, and then do not stop it",
    ),
    Rule(
        "Stuck", Condition("finetune_pod_idle_seconds", ">", 300),
        0, PAGE, "what runs on {worker} has given no sign of life for {value}",
        "it is killed and run again by itself; if not: scalable ops dump {worker}, then scalable ops kill {worker}",
        "seconds",
        and_=Condition("finetune_rows_persisted_per_min", "==", 0),
    ),
    Rule(
        "CostNearBudget", Condition("scalable_cost_month_total", ">", 0.8, over="scalable_budget_month"),
        0, WARNING, "{value} of this month's budget is spent",
        "scalable plan shows what is to come; raise budget.monthly or wait for the next month", "share",
    ),
    Rule(
        "CostOverBudget", Condition("scalable_cost_month_total", ">", 1, over="scalable_budget_month"),
        0, PAGE, "{value} of this month's budget is spent",
        "nothing more is started; raise budget.monthly or wait for the next month", "share",
    ),
)  # fmt: skip
TOLD_OTHERWISE = frozenset({"PendingWork", "ScaleUpSlow", "RetriesUsed"})
"""People who look at a run read of these anyway, as findings and retries, with what they are about."""


def scaled(factor: float, rules: Iterable[Rule] = RULES) -> tuple[Rule, ...]:
    return tuple(rule.scaled(factor) for rule in rules)


def adjusted(thresholds: Mapping[str, float | None]) -> tuple[Rule, ...]:
    """Return the rules with thresholds of one's own, by their names; without those whose threshold is nothing."""
    rules = []
    for rule in RULES:
        own = thresholds.get(rule.name, rule.when.threshold)
        if own is not None:
            rules.append(replace(rule, when=replace(rule.when, threshold=own)))
    return tuple(rules)


@dataclass(frozen=True, slots=True)
class AlertChange:
    """The beginning or the end of an alert: of a finding that somebody is told."""

    rule: Rule
    labels: Mapping[str, str]
    state: Literal["firing", "resolved"]
    since: float
    """When it began to fire."""
    value: float

    @property
    def finding(self) -> Finding:
        return self.rule.finding(self.labels, self.value)

    def to_record(self) -> dict[str, object]:
        """Return the change as a journal keeps it."""
        return {**self.finding.to_record("alert"), "state": self.state, "labels": dict(self.labels)}


@dataclass(slots=True)
class RuleState:
    """One rule for one set of labels whose condition holds or held lately."""

    began: float
    last: float
    value: float
    fired: float | None = None


@dataclass(slots=True)
class AlertWatch:
    """Applies rules to samples, time after time, and remembers since when what is so."""

    rules: Sequence[Rule] = RULES
    cases: dict[tuple[str, Labels], RuleState] = field(default_factory=dict)
    past: dict[tuple[str, Labels], deque[tuple[float, float]]] = field(default_factory=dict)
    """Of counters, what they were."""
    looked: bool = False

    def evaluate(self, samples: Iterable[Sample], now: float) -> list[AlertChange]:
        """Return what began and what ended since the last call."""
        values: dict[str, dict[Labels, float]] = {}
        for sample in samples:
            values.setdefault(sample.metric, {})[sample.key] = sample.value
        changes = [change for rule in self.rules for change in self.apply(rule, values, now)]
        self.looked = True
        return changes

    @property
    def firing(self) -> list[AlertChange]:
        """All that is so now, the oldest first."""
        changes = [
            AlertChange(rule, dict(labels), "firing", case.fired, case.value)
            for rule in self.rules
            for (name, labels), case in self.cases.items()
            if name == rule.name and case.fired is not None
        ]
        return sorted(changes, key=lambda change: (change.since, change.rule.name, sorted(change.labels.items())))

    def apply(self, rule: Rule, values: Mapping[str, Mapping[Labels, float]], now: float) -> list[AlertChange]:
        met = self.meeting(rule.when, values, now)
        if rule.and_ is not None:
            also = self.meeting(rule.and_, values, now)
            met = {labels: value for labels, value in met.items() if labels in also}
        for labels, value in met.items():
            case = self.cases.setdefault((rule.name, labels), RuleState(now, now, value))
            case.last, case.value = now, value
        changes = []
        for key, case in [(key, case) for key, case in self.cases.items() if key[0] == rule.name]:
            facts = dict(key[1])
            if key[1] in met and case.fired is None and now - case.began >= rule.for_s:
                case.fired = now
                changes.append(AlertChange(rule, facts, "firing", now, case.value))
            elif key[1] not in met and (case.fired is None or now - case.last >= rule.keep_s):
                del self.cases[key]
                if case.fired is not None:
                    changes.append(AlertChange(rule, facts, "resolved", case.fired, case.value))
        return changes

    def meeting(
        self, condition: Condition, values: Mapping[str, Mapping[Labels, float]], now: float
    ) -> dict[Labels, float]:
        figures = values.get(condition.metric, {})
        if condition.increase_s is not None:
            figures = {labels: self.growth(condition, labels, value, now) for labels, value in figures.items()}
        if condition.over is not None:
            whole = values.get(condition.over, {})
            figures = {labels: value / whole[labels] for labels, value in figures.items() if whole.get(labels)}
        return {labels: value for labels, value in figures.items() if condition.met(value)}

    def growth(self, condition: Condition, labels: Labels, value: float, now: float) -> float:
        """Return the growth of a counter: one that is new began at 0, one that is there at the first look as it is."""
        assert condition.increase_s is not None
        known = self.past.setdefault((condition.metric, labels), deque())
        if not known:
            known.append((now, 0.0 if self.looked else value))
        if value != known[-1][1]:
            known.append((now, value))
        while len(known) > 1 and known[1][0] <= now - condition.increase_s:
            known.popleft()
        return max(0.0, value - known[0][1])


def shorter(condition: Condition, factor: float) -> Condition:
    in_seconds = condition.metric.endswith("_seconds") and condition.over is None
    return replace(
        condition,
        threshold=condition.threshold * factor if in_seconds else condition.threshold,
        increase_s=condition.increase_s * factor if condition.increase_s is not None else None,
    )


def value_text(value: float, unit: Unit) -> str:
    match unit:
        case "share":
            return percent(round(value, 2))
        case "seconds":
            return str(Duration(round(value, 1) if value < 60 else round(value)))
        case "number":
            return f"{value:.6g}"
        case _:
            assert_never(unit)


def duration(seconds: float) -> str:
    """Return seconds as Prometheus reads them: 90s, 10m, 1500ms."""
    if seconds != int(seconds):
        return f"{round(seconds * 1000)}ms"
    whole = int(seconds)
    return f"{whole // 60}m" if whole and whole % 60 == 0 else f"{whole}s"
