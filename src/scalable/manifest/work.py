"""What runs: sweeps, shapes of other workloads, and what of it may run at the same time."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    InstanceOf,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from scalable.axes import Axis, AxisKind, Value, check_name, parse_over, value_text
from scalable.errors import QuantityError
from scalable.manifest.fields import (
    ONE_VALUE,
    AxisValues,
    Count,
    CountOrNone,
    Flag,
    Importable,
    Many,
    Positive,
    Section,
    Text,
    Texts,
    Variant,
    Wait,
    as_number,
)
from scalable.plugins import SHORT_FORMS, General, WorkloadPlugin, installed, plugin_of
from scalable.quantities import Duration, Memory, Money, Share
from scalable.verdicts.guards import Bar
from scalable.wording import install_hint, not_defined, shown

MAX_ROWS = 1_000_000  # what a sweep may expand to; planning that many unshared runs takes a minute or two


class Retry(Section):
    """How often and how soon a run is tried again that a lost worker, its memory or a connection ended."""

    times: CountOrNone = 1
    delay: Duration = Duration(60)
    """Before the first retry; it doubles with each."""
    cap: Duration = Duration(300)


class Minutes(Section):
    """How long a run takes: always the same, or spread out (log-normal) with this median and 95th percentile."""

    p50: Positive
    p95: Positive

    @model_validator(mode="before")
    @classmethod
    def short(cls, value: Any) -> Any:
        if isinstance(value, dict | Minutes):
            return value
        value = as_number(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
            remedy = "write e.g. 3.5, or {p50: 3.5, p95: 6}"
            raise QuantityError(f"{shown(value)} is not a number of minutes above 0", remedy)
        return {"p50": value, "p95": value}

    @model_validator(mode="after")
    def ordered(self) -> Minutes:
        if self.p95 < self.p50:
            raise QuantityError(
                f"p95 {self.p95:g} is under p50 {self.p50:g}", f"write p95: {self.p50:g} or more", ("p95",)
            )
        return self


@dataclass(frozen=True, slots=True)
class OverAxis:
    """An axis of ``over`` as it is written: its kind, and its values or the name of a group of them."""

    kind: AxisKind
    values: tuple[Value, ...] | str

    def axis(self, name: str, groups: Mapping[str, Sequence[Value]]) -> Axis:
        """Return the axis with the values that a group stands for."""
        values = tuple(groups.get(self.values, ())) if isinstance(self.values, str) else self.values
        return Axis(name, values, self.kind)


def over_axes(written: object) -> object:
    """Return the axes of ``over``; raises a ``QuantityError`` that names every axis that is wrong."""
    if not isinstance(written, dict):
        raise QuantityError(f"{shown(written)} is not a mapping of axes", "write e.g. {dataset: [digits, wine]}")
    made: dict[str, OverAxis] = {}
    wrong = []
    for name, values in written.items():
        if isinstance(values, OverAxis):
            made[name] = values
            continue
        try:
            check_name(name)
            made[name] = OverAxis(*parse_over(name, with_numbers(values)))
        except QuantityError as error:
            error.at = (name, *error.at)
            wrong.append(error)
    QuantityError.raise_all(wrong)
    return made


def with_numbers(values: object) -> object:
    """Return what is written with numbers for the variables that stand for one."""
    if isinstance(values, list):
        return [as_number(value) for value in values]
    if isinstance(values, dict):
        return {name: with_numbers(value) for name, value in values.items()}
    return as_number(values)


OVER_SCHEMA = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [
            {"type": "integer", "minimum": 1},
            {"type": "string", "minLength": 1},
            {"type": "array", "minItems": 1, "items": ONE_VALUE},
            {
                "type": "object",
                "minProperties": 1,
                "maxProperties": 1,
                "propertyNames": {"enum": [kind.value for kind in AxisKind]},
                "additionalProperties": {
                    "anyOf": [
                        {"type": "integer", "minimum": 1},
                        {"type": "string", "pattern": r"\.\."},
                        {"type": "array", "minItems": 1, "items": ONE_VALUE},
                    ]
                },
            },
        ]
    },
}
OverAxes = Annotated[dict[str, InstanceOf[OverAxis]], BeforeValidator(over_axes), WithJsonSchema(OVER_SCHEMA)]

ROW_KEYS = ("variant", "block", "key", "status", "attempt", "seconds", "error", "metrics")
"""What a row has beside its axes, so no axis can be called so."""


class Sweep(Section):
    """A table of rows over named axes: every variant is measured on every block.

    A short form, such as ``factor`` with ``assets`` and ``folds``, is written in general keys when a manifest is read.
    """

    workload: Text | None = None
    """The plug-in whose stages it runs and whose short form it may be written in."""
    run: Importable = None
    """package.module:function, stage or Workload of your own, imported from the manifest's folder."""
    compare: AxisValues = {}
    """What is judged. Several axes make a grid; each combination of their values is a variant."""
    baseline: dict[str, Variant] = {}
    """The variant that others are compared with; the first value of each axis it does not name."""
    exclude: list[dict[str, Variant]] = []
    """Combinations of compared values that are left out."""
    over: OverAxes = {}
    """Every variant is measured on each combination of these. A list, the name of a group or a number is a sample of
    what one wants to know about; ``{folds: 5}`` are cross-validation folds, ``{periods: 5}`` time windows."""
    average: AxisValues = {}
    """Axes whose rows are averaged within a block."""
    settings: dict[str, Variant] = {}
    """Values that all rows have."""
    inputs: Texts | None = None
    """Files whose content decides the result; globs, relative to the manifest."""
    metrics: dict[str, Literal["higher", "lower"]] = {}
    """Which metrics the verdict rests on and which way each is better; common ones are known."""
    primary: Text | None = None
    """The metric that decides; the first of ``metrics`` when not given."""
    smallest: Positive | None = None
    """The smallest difference of interest in the primary metric."""
    guard: dict[str, Share] = {}
    """Metrics that may not get worse by more than a share of the baseline's mean."""
    require: dict[str, Text] = {}
    """Metrics with the absolute bar that a variant must clear, e.g. ``{accuracy: "> 0.9"}``."""
    stop: Literal["never", "futile"] = "never"
    """``futile``: a variant that can hardly win any more is not continued."""
    overlap: Flag = False
    """It may run beside any other sweep, as Discovery and WFRB may; else two normal ones, or a heavy one alone."""
    run_minutes: Minutes | None = None
    """Minutes of one run on all CPUs of its profile's limit, until five were measured."""
    samples: Many | None = None
    features: Many | None = None
    """With samples: the size of the training matrix, for the memory check before anything is paid."""
    profile: Text | None = None
    """The worker's size; follows from what it compares when not given."""
    pool: Text | None = None
    workers: Count | None = None
    """Workers of the plan `manual`; one per value of the first axis of ``over`` when not given."""
    deadline: Wait | None = None
    """How long it may take, from its first run's start to its last row; the target's walltime when not given."""
    checkpoints: Flag = False
    """Its stages keep half-done work in ``scalable.scratch()`` and go on there, so a run may outlast a walltime."""
    retry: Retry | None = None
    """What it does not say itself is as in policies.retry."""
    _implied: Mapping[str, Any] = PrivateAttr(default_factory=dict)
    _origins: Mapping[str, str] = PrivateAttr(default_factory=dict)
    _wrong: tuple[QuantityError, ...] = PrivateAttr(())

    @property
    def implied(self) -> Mapping[str, Any]:
        """Values that its short form gives all rows; settings and axes of the same name count instead."""
        return self._implied

    @property
    def wrong(self) -> tuple[QuantityError, ...]:
        """What its workload finds wrong with its short form."""
        return self._wrong

    def with_implied(self, **values: Any) -> Sweep:
        """Return the same sweep with other values that all its rows have."""
        kept = {name: value for name, value in self.settings.items() if name not in values}
        other = self.model_copy(update={"settings": kept})
        other._implied = {**self._implied, **values}
        return other

    @property
    def is_short(self) -> bool:
        """Whether it is written in the short form of a workload."""
        return bool(self._origins)

    @property
    def factor(self) -> str:
        """What it varies, as histories and locks call it."""
        return "/".join(self.compare)

    @property
    def plugin(self) -> WorkloadPlugin | None:
        """The plug-in whose stages it runs."""
        return plugin_of(self.workload, self.run)

    @property
    def stages(self) -> str | None:
        """Where the code that computes its rows is: its own ``run``, or the stages of its workload."""
        return self.run or (self.plugin.run if self.plugin is not None else None)

    def where(self, key: str) -> str:
        """Return the key that somebody has written for a general one: ``assets`` for ``over.asset``."""
        return self._origins.get(key, key)

    @model_validator(mode="wrap")
    @classmethod
    def in_general_keys(cls, value: Any, handler: ModelWrapValidatorHandler[Sweep]) -> Sweep:
        """Write a short form in general keys, and check what several keys say together."""
        if not isinstance(value, dict):
            return handler(value)
        made, wrong = generalised(value, cls.model_fields)
        try:
            sweep = handler(dict(made.keys))
        except ValidationError as error:
            raise together(wrong, error) from None
        if wrong is not None:
            raise wrong
        sweep._implied, sweep._origins, sweep._wrong = made.implied, made.origins, made.wrong
        QuantityError.raise_all(list(contradictions(sweep)))
        return sweep


def generalised(written: dict[str, Any], general: Container[str]) -> tuple[General, ValidationError | None]:
    """Return a sweep in general keys, and what is wrong with its short form."""
    short = {key: value for key, value in written.items() if key not in general}
    named = written.get("workload")
    if isinstance(named, str) and named not in installed():
        if named in SHORT_FORMS.values():
            raise missing_plugin(named, "workload")
        message, remedy = not_defined("workload", named, installed())
        raise QuantityError(message, remedy, ("workload",), code="unknown-workload")
    if isinstance(named, str) and written.get("run") is not None:
        raise QuantityError("run and workload both say what computes a row", "write one of them", ("workload",))
    if isinstance(named, str):
        plugin: WorkloadPlugin | None = installed()[named]
    else:
        plugin = next((each for each in installed().values() if not short.keys().isdisjoint(each.short_keys())), None)
    if plugin is None and not isinstance(named, str):
        for key in short.keys() & SHORT_FORMS.keys():
            raise missing_plugin(SHORT_FORMS[key], key)
    if plugin is None or plugin.short_form is None:
        return General(written), None
    own = set(plugin.short_keys())
    keys = {key: value for key, value in written.items() if key not in own}
    try:
        form = plugin.short_form.model_validate({key: value for key, value in short.items() if key in own})
        return form.general(keys), None
    except ValidationError as error:
        return General({"compare": {"unread": [0]}, **keys}), error


def missing_plugin(name: str, key: str) -> QuantityError:
    """Return that a key belongs to a workload whose plug-in is not installed."""
    message = f"{key} belongs to the workload {name}, whose plug-in is not installed"
    return QuantityError(message, install_hint(name), (key,), code="missing-plugin")


def together(first: ValidationError | None, second: ValidationError) -> ValidationError:
    """Return both errors as one."""
    if first is None:
        return second
    details = [detail for error in (first, second) for detail in error.errors(include_url=False)]
    lines: list[Any] = [{name: detail.get(name, {}) for name in ("type", "loc", "input", "ctx")} for detail in details]
    return ValidationError.from_exception_data("Sweep", lines)


def contradictions(sweep: Sweep) -> Iterator[QuantityError]:
    """Yield what the keys of a sweep say that cannot be true together."""
    if sweep.run is None and sweep.workload is None:
        remedy = f"write run: package.module:function, or workload: {' or '.join(installed()) or '…'}"
        yield QuantityError("nothing says what computes a row", remedy, ("compare",), code="missing")
    if not sweep.compare:
        yield QuantityError("compare is required", "add  compare: {model: [first, second]}", ("compare",), "missing")
    yield from crossed_axes(sweep)
    yield from wrong_variants(sweep)
    if sweep.primary is not None and sweep.metrics and sweep.primary not in sweep.metrics:
        message, remedy = not_defined("metric", sweep.primary, sweep.metrics)
        yield QuantityError(message, remedy, ("primary",))
    for metric, text in sweep.require.items():
        try:
            Bar.parse(metric, text)
        except QuantityError as error:
            error.at = ("require", metric)
            yield error


def crossed_axes(sweep: Sweep) -> Iterator[QuantityError]:
    seen: dict[str, str] = {}
    for side in ("compare", "over", "average"):
        for name in getattr(sweep, side):
            at = tuple(sweep.where(f"{side}.{name}").split(".", 1))
            if name in seen:
                first, second = sweep.where(f"{seen[name]}.{name}"), sweep.where(f"{side}.{name}")
                message = f"{name} is an axis of {seen[name]} ({first}) and of {side} ({second})"
                at = tuple(sweep.where(f"{seen[name]}.{name}").split(".", 1)) if sweep.is_short else at
                yield QuantityError(message, "an axis has one side: remove one, or rename it", at, "two-sides")
            elif name in ROW_KEYS:
                remedy = "rename it; rows have something else of this name"
                yield QuantityError(f"{name} cannot be the name of an axis", remedy, at)
            seen.setdefault(name, side)


def wrong_variants(sweep: Sweep) -> Iterator[QuantityError]:
    if len(sweep.compare) > 1:
        for name, values in sweep.compare.items():
            for index, value in enumerate(values):
                if isinstance(value, str) and "/" in value:
                    message = f"{shown(value)} has a /, which stands between the values of a variant"
                    yield QuantityError(message, "write it without /", ("compare", name, index))
    wrong = [error for index, part in enumerate(sweep.exclude) for error in misplaced(sweep, part, "exclude", index)]
    wrong += misplaced(sweep, sweep.baseline, "baseline")
    yield from wrong
    if wrong or not sweep.compare:
        return
    if prod(map(len, sweep.compare.values())) > MAX_ROWS:
        return  # the number of its rows is refused elsewhere
    baseline = {**{name: values[0] for name, values in sweep.compare.items()}, **sweep.baseline}
    if excluded(baseline, sweep.exclude):
        message = f"the baseline {'/'.join(map(value_text, baseline.values()))} is left out by exclude"
        yield QuantityError(message, "name another baseline, or keep it", ("exclude",), "excluded-baseline")


def misplaced(sweep: Sweep, part: Mapping[str, Value], *at: str | int) -> list[QuantityError]:
    """Return what is wrong with values of compared axes."""
    wrong = []
    if not part and at[0] == "exclude":
        wrong.append(QuantityError("nothing is left out by this", "write e.g. {model: logreg, size: 100}", at))
    for name, value in part.items():
        if name not in sweep.compare:
            message, remedy = not_defined("axis", name, sweep.compare)
            wrong.append(QuantityError(message, remedy, (*at, name), f"{at[0]}-axis"))
        elif not any(alike(value, known) for known in sweep.compare[name]):
            known_values = ", ".join(map(value_text, sweep.compare[name]))
            message = f"{shown(value)} is no value of {name}"
            wrong.append(QuantityError(message, f"choose one of {known_values}", (*at, name), f"{at[0]}-value"))
    return wrong


def alike(value: Value, other: Value) -> bool:
    """Return whether two values are one: 1 and 1.0 are, 1 and true are not."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other


def excluded(variant: Mapping[str, Value], exclude: Iterable[Mapping[str, Value]]) -> bool:
    """Return whether a combination of compared values is left out."""
    return any(all(alike(variant[name], value) for name, value in part.items()) for part in exclude)


class WorkloadShape(Section):
    """A shape for planning when no sweep is written down: this many workers, busy for this long."""

    workers: Count
    profile: Text
    hours: Positive
    peak_memory: Memory | None = None
    pool: Text | None = None


class Stated(Section):
    """What an earlier document says; where the forecast differs, a note says so."""

    hours: Positive | None = None
    cost: Money | None = None
    monthly: Money | None = None
    nodes: Count | None = None
    rows: Count | None = None
    run_minutes: Positive | None = None
    """Minutes a row that it counted with for every sweep (default: each sweep's own)."""
    ram_margin: Share | None = None


class Together(Section):
    """Things that run at the same time."""

    sweeps: dict[str, Count] = {}
    """A sweep's name, or a profile's for "any sweep of that size": how many."""
    workloads: dict[str, Count] = {}
    stated: Stated | None = None

    @model_validator(mode="before")
    @classmethod
    def short(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("workloads"), list | str):
            names = [value["workloads"]] if isinstance(value["workloads"], str) else value["workloads"]
            return {**value, "workloads": {str(name): names.count(name) for name in names}}
        return value


class Scenario(Together):
    """What may run at the same time."""

    @model_validator(mode="after")
    def something(self) -> Scenario:
        if not self.sweeps and not self.workloads:
            raise QuantityError("the scenario is empty", "write e.g. {sweeps: {standard: 2}, workloads: [discovery]}")
        return self


def once(values: Any) -> Any:
    """Return a list in which nothing stands twice: a cell of the grid has one row."""
    seen = set()
    wrong = []
    for index, value in enumerate(values):
        this = (isinstance(value, bool), value)  # 1 and 1.0 are one value, true is another
        if this in seen:
            wrong.append(QuantityError(f"{value} is listed twice", "a cell has one row: remove one", (index,)))
        seen.add(this)
    QuantityError.raise_all(wrong)
    return values
