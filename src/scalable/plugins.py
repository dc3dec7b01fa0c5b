"""Workload plug-ins: what a field brings to sweeps, found under the entry point group ``scalable.workloads``.

A plug-in says where its stages are, which short form of a sweep it understands, which groups and factors it has, which
of its metrics decide, and what is known of the size of its jobs. It is imported whenever a manifest is read, so its
module imports nothing heavy. Plug-ins import the names they need from ``scalable.workloads``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol

from scalable.axes import Value
from scalable.errors import QuantityError, ScalableError
from scalable.wording import install_hint

ENTRY_POINTS = "scalable.workloads"
SHORT_FORMS = {"factor": "finetune"}
"""Keys that manifests have without naming the workload they belong to, which may not be installed."""
NOTHING: Mapping[str, Any] = {}
TRAINING_SET = "training-set"  # the note in which a job tells how large the set is that it trains on


@dataclass(frozen=True, slots=True)
class Factor:
    """Something that sweeps of a workload vary. The first variant is the baseline the others are compared with."""

    name: str
    variants: tuple[Value, ...]
    heavy: bool = False
    """A sweep that varies it needs the heavy profile."""
    heavy_values: tuple[Value, ...] = ()
    """Values that make every sweep need the heavy profile if they are locked or set; so do numbers over a heavy
    factor's baseline."""
    free: bool = False
    """Its values are lengths or numbers, of which more make sense than those listed; the workload says which."""
    in_search: bool = True
    """A variant changes what the costliest stage sees; if not, one such stage serves all variants."""


class Better(Enum):
    """Which way a metric improves."""

    HIGHER = 1
    LOWER = -1


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric that verdicts are made of."""

    name: str
    better: Better
    why: str
    """What it tells that the others do not."""
    primary: bool = False
    """A variant that makes this one clearly worse is given up whatever else it gains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCost:
    """How long a job usually takes before one was measured. Its time is proportional to one of its settings."""

    setting: str
    """The setting that time is proportional to, e.g. ``trials``."""
    noun: str
    """What one of it is called, e.g. ``trial``."""
    usual: int
    """The value of the setting that the minutes are for."""
    minutes: float
    heavy_minutes: float
    """Of a sweep that needs the heavy profile."""
    cores: float
    """What a job can use at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the ratios in a row rest on, such as the number of trades; verdicts remark where there is little of it."""

    metrics: tuple[str, ...]
    """Metrics that count it; the first that a row has is taken."""
    least: float
    """In each block; with less a ratio is mostly noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """What a report draws over time: the worth of an account, computed anew from the artefacts of a stage."""

    stage: str
    """The stage whose result has what the account did."""
    by_day: str
    """``package.module:function`` that returns ``[(second, logarithm of the gain), …]`` of the stage's result and a
    value of the averaged axis."""
    end: str
    """The metric that a curve must end at."""
    over: tuple[str, str]
    """The axes it is drawn for: one picture per value of the first; those of the second follow one another."""
    average: str
    """The averaged axis, of which the middle value is drawn."""
    caption: str
    """What a curve shows; ``{average}`` is the value that is drawn."""
    noun: str
    """What a value of the first axis is called."""


class Checked(tuple[Value, ...]):
    """Values of an axis that a short form has checked already."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class General:
    """A sweep in general keys, made of a short form."""

    keys: Mapping[str, Any]
    """``compare``, ``over``, ``average`` and other general keys of a sweep."""
    implied: Mapping[str, Any] = field(default_factory=dict)
    """Values that all rows have although no setting says so; settings and axes of the same name count instead."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """By general key (``over.asset``): the key of the short form that says it (``assets``)."""
    wrong: tuple[QuantityError, ...] = ()
    """What is wrong with the short form although its keys can be read."""


class ShortForm(Protocol):
    """A pydantic model of the keys that a short form has."""

    def general(self, keys: Mapping[str, Any]) -> General:
        """Return the sweep in general keys; ``keys`` are those that are general already."""


@dataclass(frozen=True, kw_only=True)
class WorkloadPlugin:
    """What a workload declares."""

    name: str
    """What ``workload: NAME`` in a sweep means."""
    run: str
    """Where its stages are: ``package.module:NAME`` of a ``Workload``."""
    short_form: Any = None
    """A pydantic model with a method ``general``, see ``ShortForm``; its fields are the keys it adds to a sweep."""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Lists of values that an axis can name."""
    factors: Mapping[str, Factor] = field(default_factory=dict)
    profiles: Mapping[str, str] = field(default_factory=dict)
    """By path of another workload of the same field: the profile its sweeps have by default."""
    related: Callable[[str], bool] = lambda run: False
    """Tells whether another workload, by its path, is made of this one's stages."""
    features: Callable[[Mapping[str, Any]], int | None] = lambda compared: None
    """Returns how many columns the largest variant trains on, by what a sweep compares, where that is known."""
    once_per_job: frozenset[str] = frozenset()
    """Axes whose values share the costliest stage."""
    title: str = ""
    """What messages call it; ``the workload NAME`` when not given."""
    metrics: tuple[Metric, ...] = ()
    """Metrics that verdicts can rest on, the most important first."""
    primary: str | None = None
    """The metric that decides; the first of ``metrics`` when not given."""
    guards: Mapping[str, float] = field(default_factory=dict)
    """Metrics that may not get worse by more than this share of the baseline's mean."""
    incomparable: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By compared axis: metrics whose meaning it changes, with the reason."""
    evidence: Evidence | None = None
    cost: JobCost | None = None
    curves: Curves | None = None
    on_this_machine: frozenset[str] = frozenset()
    """Settings that name files: what is wrong here may be right where the sweep runs."""
    requires: tuple[str, ...] = ()
    """Modules that its stages import."""
    extra: str = ""
    """The extra of this distribution that brings them."""

    @property
    def label(self) -> str:
        return self.title or f"the workload {self.name}"

    @property
    def decides(self) -> str | None:
        """The metric that decides where a manifest names none."""
        return self.primary or (self.metrics[0].name if self.metrics else None)

    @property
    def package(self) -> str:
        """The package that its stages are in."""
        return self.run.partition(":")[0].partition(".")[0]

    def missing(self, module: str) -> str:
        """Return what to say where a module that its stages need is not installed."""
        return f"{self.label} needs {module}; {self.install_hint(module)}"

    def install_hint(self, *modules: str) -> str:
        """Return what to type to install modules that its stages need."""
        return install_hint(self.extra) if self.extra else f"write  pip install {' '.join(modules)}"

    def owns(self, run: str | None) -> bool:
        """Return whether a sweep with this ``run`` is made of the plug-in's stages."""
        return run is None or run == self.run or self.related(run)

    def short_keys(self) -> tuple[str, ...]:
        return tuple(self.short_form.model_fields) if self.short_form is not None else ()

    def is_heavy(self, compared: Mapping[str, Any], values: Mapping[str, Any] = NOTHING) -> bool:
        """Return whether a sweep needs much memory: for what it varies, or for the values that all its rows have."""
        varies = any(name in self.factors and self.factors[name].heavy for name in compared)
        return varies or any(self.is_heavy_value(*each) for each in values.items() if each[0] not in compared)

    def is_heavy_value(self, name: str, value: Value) -> bool:
        factor = self.factors.get(name)
        if factor is None or not factor.heavy:
            return False
        first = factor.variants[0]
        if isinstance(first, int) and isinstance(value, int | float):
            return value > first
        return value in factor.heavy_values

    def shared_axes(self, compared: Mapping[str, Any]) -> frozenset[str]:
        """Return the axes whose values all rows of a job have."""
        unseen = {name for name in compared if name in self.factors and not self.factors[name].in_search}
        return self.once_per_job | unseen


@cache
def installed() -> dict[str, WorkloadPlugin]:
    """Return the plug-ins there are, by name."""
    plugins: dict[str, WorkloadPlugin] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            plugins[entry.name] = entry.load()
        except ModuleNotFoundError as error:
            if error.name != entry.module.partition(".")[0]:  # else the package is gone and only its metadata is there
                raise ScalableError(f"the workload plug-in {entry.name} cannot be imported: {error}") from error
    return plugins


def plugin_of(workload: str | None, run: str | None) -> WorkloadPlugin | None:
    """Return the plug-in of a sweep that names a workload, or whose ``run`` is made of a plug-in's stages."""
    if workload is not None:
        return installed().get(workload)
    return next((plugin for plugin in installed().values() if run is not None and plugin.owns(run)), None)


def plugin_at(path: str) -> WorkloadPlugin | None:
    """Return the plug-in whose own stages are at a path."""
    return next((plugin for plugin in installed().values() if plugin.run == path), None)


def factors() -> Iterator[Factor]:
    """Yield the factors of all plug-ins."""
    return (factor for plugin in installed().values() for factor in plugin.factors.values())
