"""Workload plug-ins: what a field brings to sweeps, found under the entry point group ``scalable.workloads``.

A plug-in says where its stages are, which short form of a sweep it understands, which groups and factors it has, and
what is known of their size. It is imported whenever a manifest is read, so its module imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Protocol

from scalable.axes import Value
from scalable.errors import QuantityError

ENTRY_POINTS = "scalable.workloads"
SHIPPED = {"finetune": "scalable.catalogue:PLUGIN"}
"""Found without installation metadata, too: a source tree that is not installed has none."""
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
    paths = SHIPPED | {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}
    plugins = {}
    for name, path in paths.items():
        module, _, attribute = path.partition(":")
        plugins[name] = getattr(import_module(module), attribute)
    return plugins


def plugin_of(workload: str | None, run: str | None) -> WorkloadPlugin | None:
    """Return the plug-in of a sweep that names a workload, or whose ``run`` is made of a plug-in's stages."""
    if workload is not None:
        return installed().get(workload)
    return next((plugin for plugin in installed().values() if run is not None and plugin.owns(run)), None)


def factors() -> Iterator[Factor]:
    """Yield the factors of all plug-ins."""
    return (factor for plugin in installed().values() for factor in plugin.factors.values())
