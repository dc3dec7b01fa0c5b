"""The engine's rules, events and instructions as JSON values, and back.

The form follows the type hints of the classes. It has names of its own where a class stands for one of several, so a
recorded run stays readable when a class gets another name. A record depends on ``NAMES`` and on the names of fields.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from functools import cache
from math import isfinite
from operator import attrgetter
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from scalable.engine import events
from scalable.engine.events import Event, Instruction
from scalable.engine.rules import Room
from scalable.findings import Finding
from scalable.planning.placement import OpenRoom, PoolRoom
from scalable.quantities import Quantity, Share

Form = Callable[[Any], Any]

NAMES: Mapping[Any, Mapping[str, type]] = {
    Event: {
        "sweep-submitted": events.SweepSubmitted,
        "sweep-cancelled": events.SweepCancelled,
        "worker-joined": events.WorkerJoined,
        "worker-ends": events.WorkerEnds,
        "worker-lost": events.WorkerLost,
        "worker-leaving": events.WorkerLeaving,
        "workers-refused": events.WorkersRefused,
        "workers-withdrawn": events.WorkersWithdrawn,
        "job-finished": events.JobFinished,
        "job-lost": events.JobLost,
        "job-cancelled": events.JobCancelled,
        "jobs-elsewhere": events.JobsElsewhere,
        "jobs-returned": events.JobsReturned,
        "jobs-done-elsewhere": events.JobsDoneElsewhere,
        "progressed": events.Progressed,
        "row-persisted": events.RowPersisted,
        "cpu-seen": events.CpuSeen,
        "spend-changed": events.SpendChanged,
        "hours-changed": events.HoursChanged,
        "outside-work": events.OutsideWork,
        "bounds-set": events.BoundsSet,
        "paused": events.Paused,
        "resumed": events.Resumed,
        "tick": events.Tick,
    },
    Instruction: {
        "start-job": events.StartJob,
        "kill-job": events.KillJob,
        "take-back": events.TakeBack,
        "add-workers": events.AddWorkers,
        "remove-worker": events.RemoveWorker,
        "workers-given-up": events.WorkersGivenUp,
        "job-ended": events.JobEnded,
        "sweep-admitted": events.SweepAdmitted,
        "sweep-ended": events.SweepEnded,
        "finding": Finding,
    },
    Room: {"nodes": PoolRoom, "open": OpenRoom},
}
"""By what a class is one of: its name in a record."""
EMPTY: tuple[Any, ...] = (None, "", (), frozenset())
"""Defaults that are left out; others are written, since a later version may have another default."""


@cache
def encoder(hint: Any) -> Form:
    """Return the function that turns a value of this type into what JSON has."""
    if hint in NAMES:
        known = {kind: (name, fields_encoder(kind)) for name, kind in NAMES[hint].items()}

        def named(value: Any) -> dict[str, Any]:
            name, encode = known[type(value)]
            return {name: encode(value)}

        return named
    if is_record(hint):
        single = single_field(hint)
        return fields_encoder(hint) if single is None else attrgetter(single)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return attrgetter("value")
    if hint is float:
        return lambda value: value if isfinite(value) else str(value)  # JSON has no infinity
    if hint is Decimal:
        return str
    inner, origin = arguments(hint), get_origin(hint)
    if origin in (Union, types.UnionType):
        encode = encoder(inner[0])
        return lambda value: None if value is None else encode(value)
    if origin in (tuple, list):
        encode = encoder(inner[0])
        return lambda value: [encode(item) for item in value]
    if origin is frozenset:
        return sorted
    if isinstance(origin, type) and issubclass(origin, Mapping):
        encode = encoder(inner[1])
        return lambda value: {name: encode(item) for name, item in value.items()}
    return unchanged


@cache
def decoder(hint: Any) -> Form:
    """Return the function that makes a value of this type of what ``encoder`` made."""
    if hint in NAMES:
        known = {name: fields_decoder(kind) for name, kind in NAMES[hint].items()}

        def unnamed(value: Mapping[str, Any]) -> Any:
            ((name, facts),) = value.items()
            return known[name](facts)

        return unnamed
    if is_record(hint) and single_field(hint) is None:
        return fields_decoder(hint)
    if is_record(hint) or hint in (float, Decimal, Share) or (isinstance(hint, type) and issubclass(hint, Enum)):
        constructor: Form = hint
        return constructor
    inner, origin = arguments(hint), get_origin(hint)
    if origin in (Union, types.UnionType):
        decode = decoder(inner[0])
        return lambda value: None if value is None else decode(value)
    if origin in (tuple, list, frozenset):
        decode = decoder(inner[0])
        return lambda value: origin(decode(item) for item in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        decode = decoder(inner[1])
        return lambda value: {name: decode(item) for name, item in value.items()}
    return unchanged


def unchanged(value: Any) -> Any:
    return value


def is_record(hint: Any) -> bool:
    return isinstance(hint, type) and (is_dataclass(hint) or issubclass(hint, BaseModel))


def arguments(hint: Any) -> tuple[Any, ...]:
    """Return the types a type is made of, without None."""
    return tuple(inner for inner in get_args(hint) if inner is not type(None))


def fields_of(kind: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield each field's name, its type, and its default, or ``MISSING`` if it has none."""
    hints = get_type_hints(kind)
    if issubclass(kind, BaseModel):
        for name in kind.model_fields:
            yield name, hints[name], MISSING
        return
    for field in fields(kind):
        default = field.default if field.default_factory is MISSING else MISSING
        yield field.name, hints[field.name], default


def single_field(kind: Any) -> str | None:
    """Return the only field of a quantity that has one, which stands for the whole."""
    names = [field.name for field in fields(kind)] if issubclass(kind, Quantity) else []
    return names[0] if len(names) == 1 else None


@cache
def fields_encoder(kind: type) -> Form:
    plan = [
        (name, None if (form := encoder(hint)) is unchanged else form, default)
        for name, hint, default in fields_of(kind)
    ]

    def encode(record: Any) -> dict[str, Any]:
        encoded: dict[str, Any] = {}
        for name, form, default in plan:
            value = getattr(record, name)
            if default is MISSING or value != default or not left_out(default):
                encoded[name] = value if form is None else form(value)
        return encoded

    return encode


def left_out(default: Any) -> bool:
    return is_dataclass(default) or default in EMPTY


@cache
def fields_decoder(kind: type) -> Form:
    plan = [(name, decoder(hint)) for name, hint, _ in fields_of(kind)]

    def decode(value: Mapping[str, Any]) -> Any:
        return kind(**{name: form(value[name]) for name, form in plan if name in value})

    return decode
