"""What the store holds: a row per finished or failed run, its attempts, an entry per sweep that was started, incidents.

All check themselves when they are made, which is where a run's result is made: a row that exists can be stored. The
evidence of an incident stays in its run's folder; the store has what a person needs to decide whether to look there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, lru_cache
from hashlib import blake2b
from math import isfinite
from numbers import Integral, Real
from operator import attrgetter
from typing import Any, Protocol, Self

from scalable.axes import Value, value_text
from scalable.store.errors import RowError
from scalable.store.json_values import IN_ORDER, NotJsonError, json_value, to_json
from scalable.wording import shown

KEY = re.compile(r"[0-9a-f]{32,128}")  # 128 bit or more: keys of different work do not meet by chance
LONGEST_NAME = 1000  # characters of a name, a fingerprint or a worker
LONGEST_ERROR = 20_000  # characters kept of a failure's text: a long traceback
LARGEST = 16 * 1024 * 1024  # characters of metrics or value as JSON; larger results belong into files
MOST = 2**63 - 1  # the largest whole number of the databases
SEPARATOR = "/"  # between the names of compared axes, and between their values, where there are several
NOT_IN_NAMES = re.compile(r'["\\/]')  # SQL and the separator could not tell such an axis from others

TRADING_AXES = ("asset", "fold", "cost_bps")  # of a factor's sweep, beside the factor itself


class Record(Protocol):
    """What can be stored: it tells its content as plain values."""

    def to_dict(self) -> dict[str, Any]: ...


class RowStatus(Enum):
    """How a run ended. The value is the word in the table."""

    FINISHED = "finished"  # the row carries a result and counts in statistics
    FAILED = "failed"  # the row says why there is no result; it replaces one only if a person marked it


class SweepStatus(Enum):
    """Where a sweep is. The value is the word in the table."""

    RUNNING = "running"  # started and not reported ended; its driver may be dead
    FINISHED = "finished"  # every expected row is there
    FAILED = "failed"  # ended with rows missing or failed
    INTERRUPTED = "interrupted"  # stopped before its end; can be resumed
    LOST = "lost"  # its driver is gone without a word, which the next start found; can be resumed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Row:
    """The result of one run. A row of a sweep has its place on the axes and metrics; a plain task a name and a value.

    Two rows are equal when their content is; ``written_at`` is not content.
    """

    run_key: str
    """What the run is, as at least 32 hexadecimal digits: same key, same row."""
    name: str | None = None
    sweep: str | None = None
    axes: Mapping[str, Value] = field(default_factory=dict)
    """Its place in the sweep: the value on every axis by name, compared axes first."""
    compared: tuple[str, ...] = ()
    """The axes that are compared: their values make the variant."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    value: Any = None
    """What a plain task returned, as JSON."""
    elapsed_s: float | None = None
    run_status: RowStatus = RowStatus.FINISHED
    attempt: int = 1
    error: str | None = None
    """Why it failed; cut to a length and freed of characters a database refuses."""
    code_fingerprint: str | None = None
    config_fingerprint: str | None = None
    data_fingerprint: str | None = None
    worker: str | None = None
    marked: bool = False
    """A person said that this attempt and earlier ones do not count, see ``Store.mark_failed``."""
    run_id: str | None = None
    """The run that computed it."""
    written_at: float | None = None
    """Unix seconds; the store fills it in when it takes the row."""

    def __post_init__(self) -> None:
        check_key(self.run_key)
        where = f"row {self.run_key}"
        if self.name is None and self.sweep is None:
            raise RowError(f"{where} has neither a name nor a sweep; give it one of them")
        check_names(self, where, "name", "sweep", "worker", "run_id")
        check_names(self, where, "code_fingerprint", "config_fingerprint", "data_fingerprint")
        set_axes(self, where)
        set_count(self, "attempt", where, least=1)
        for name in ("elapsed_s", "written_at"):
            set_number(self, name, where)
        if not isinstance(self.run_status, RowStatus):
            raise RowError(f"{where}: run_status is {shown(self.run_status)}; write RowStatus.FINISHED or .FAILED")
        if not isinstance(self.marked, bool) or (self.marked and self.finished):
            raise RowError(f"{where}: marked is {shown(self.marked)}; only a failed row can be marked as such")
        if not isinstance(self.metrics, Mapping):
            raise RowError(f"{where}: metrics is a {type(self.metrics).__name__}; write a mapping of names to values")
        for name in ("metrics", "value"):
            object.__setattr__(self, name, stored(getattr(self, name), where, name))
        if self.error is not None:
            object.__setattr__(self, "error", printable(str(self.error)))

    @property
    def finished(self) -> bool:
        return self.run_status is RowStatus.FINISHED

    @property
    def variant(self) -> Value | None:
        """The value on the compared axis; of several axes their values as one text, e.g. ``svm/10``."""
        return variant_of(self.axes, self.compared)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values, under the names of the table's columns."""
        fields = as_dict(self)
        fields["compared"] = SEPARATOR.join(self.compared) or None
        return fields

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the row that ``to_dict`` gave these values, also if that was before rows had axes."""
        fields = dict(values) if "axes" in values else with_axes(values)
        fields["compared"] = tuple(fields["compared"].split(SEPARATOR)) if fields["compared"] else ()
        fields["run_status"] = RowStatus(values["run_status"])
        return cls(**fields)

    def __eq__(self, other: object) -> bool:
        return content(self) == content(other) if isinstance(other, Row) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.run_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One try to compute a row. A row that is written closes all attempts up to its own."""

    run_key: str
    attempt: int
    """Counted on from driver to driver."""
    run_id: str
    started: float
    """Unix seconds, as is ``ended``."""
    ended: float | None = None
    """When it ended without a result; an attempt that neither has an end nor led to a row died with its driver."""
    cause: str | None = None
    """Of its end, as in ``scalable.engine.events.Loss``."""

    def __post_init__(self) -> None:
        check_key(self.run_key)
        where = f"attempt {shown(self.attempt)} of row {self.run_key}"
        check_names(self, where, "run_id", "cause")
        set_count(self, "attempt", where, least=1)
        for name in ("started", "ended"):
            set_number(self, name, where)
        if (self.ended is None) != (self.cause is None):
            raise RowError(f"{where} has ended {shown(self.ended)} with cause {shown(self.cause)}; give both or none")

    def to_dict(self) -> dict[str, Any]:
        return as_dict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRun:
    """One sweep that was started: when, where, how many rows it should give, and how it ended."""

    id: str
    """Names this start of the sweep; the same sweep started again has another."""
    sweep: str
    started: float
    """Unix seconds, as is ``ended``."""
    ended: float | None = None
    status: SweepStatus = SweepStatus.RUNNING
    expected: int = 0
    target: str | None = None
    reason: str | None = None
    """Why it did not finish, in words."""

    def __post_init__(self) -> None:
        where = f"sweep run {shown(self.id)}"
        for name in ("id", "sweep"):
            if not getattr(self, name):
                raise RowError(f"{where}: {name} is empty; give it a text")
        check_names(self, where, "id", "sweep", "target")
        set_count(self, "expected", where, least=0)
        if not isinstance(self.status, SweepStatus):
            raise RowError(f"{where}: status is {shown(self.status)}; write a SweepStatus")
        for name in ("started", "ended"):
            set_number(self, name, where)
        if self.started is None:
            raise RowError(f"{where}: started is missing; write Unix seconds")
        if (self.ended is None) != (self.status is SweepStatus.RUNNING):
            raise RowError(
                f"{where} is {self.status.value} with ended {shown(self.ended)}; only a running one has none"
            )
        if self.reason is not None:
            object.__setattr__(self, "reason", printable(str(self.reason)))

    def to_dict(self) -> dict[str, Any]:
        return as_dict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(**{**values, "status": SweepStatus(values["status"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRow:
    """One incident. Written again with the same id, the later one is kept."""

    id: str
    """Names it among those of all runs, e.g. ``run-…/1``."""
    kind: str
    started: float
    """Unix seconds."""
    sweep: str | None = None
    run: str | None = None
    worker: str | None = None
    summary: Mapping[str, Any] = field(default_factory=dict)
    """What is known of it, as JSON."""

    def __post_init__(self) -> None:
        where = f"incident {shown(self.id)}"
        for name in ("id", "kind", "started"):
            if getattr(self, name) is None:
                raise RowError(f"{where}: {name} is missing")
        check_names(self, where, "id", "kind", "sweep", "run", "worker")
        set_number(self, "started", where)
        if not isinstance(self.summary, Mapping):
            raise RowError(f"{where}: summary is a {type(self.summary).__name__}; write a mapping of names to values")
        object.__setattr__(self, "summary", stored(self.summary, where, "summary"))

    def to_dict(self) -> dict[str, Any]:
        return as_dict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(**values)


def content(record: Record) -> str:
    """Everything that is stored of a record but the time of writing, as one text.

    Axes keep their order, everything else is sorted by name.
    """
    fields = record.to_dict()
    fields.pop("written_at", None)
    if fields.get("marked") is False:
        del fields["marked"]
    if not isinstance(record, Row):
        return to_json(fields)
    axes = IN_ORDER.encode(fields.pop("axes"))
    return f'{{"axes":{axes},{to_json(fields)[1:]}'


def variant_of(axes: Mapping[str, Value], compared: Sequence[str]) -> Value | None:
    """Return what is compared; see ``Row.variant``."""
    if len(compared) > 1:
        return SEPARATOR.join(value_text(axes[name]) for name in compared)
    return axes[compared[0]] if compared else None


def digest(text: str) -> str:
    """Tells two different contents of one key apart, and which of them is kept."""
    return blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def as_dict(record: Any) -> dict[str, Any]:
    """The fields of a record, its status as the word of the table."""
    names = record.__slots__
    values: dict[str, Any] = dict(zip(names, reader(names)(record), strict=True))
    for status in ("run_status", "status"):
        if status in values:
            values[status] = values[status].value
    return values


@cache
def reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """What reads all fields of a record at once, which is several times as fast as one by one."""
    return attrgetter(*names)


def check_key(key: object) -> None:
    if not isinstance(key, str) or not KEY.fullmatch(key):
        raise RowError(f"{shown(key)} is not a row's key; write 32 to 128 hexadecimal digits, lower case")


def check_names(record: Any, where: str, *names: str) -> None:
    for name in names:
        text = getattr(record, name)
        if text is not None:
            check_name(text, where, name)


def check_name(text: object, where: str, name: str) -> None:
    if not isinstance(text, str) or not text:
        raise RowError(f"{where}: {name} is {shown(text)}; write a text that is not empty")
    if len(text) > LONGEST_NAME:
        raise RowError(f"{where}: {name} has {len(text)} characters; at most {LONGEST_NAME} fit")
    if text != storable(text):
        raise RowError(f"{where}: {name} is {shown(text)}; write a text without the character 0 or half characters")


def set_axes(row: Row, where: str) -> None:
    """Check axes and values, and keep a copy that nobody else can change."""
    if not isinstance(row.axes, Mapping):
        raise RowError(f"{where}: axes is a {type(row.axes).__name__}; write a mapping of names to values")
    axes = {name: axis_value(value, where, name) for name, value in row.axes.items()}
    for name in axes:
        check_axis(name, where)
    if isinstance(row.compared, str) or not all(name in axes for name in row.compared):
        raise RowError(f"{where}: compared is {shown(row.compared)}; write a tuple of names that axes has")
    object.__setattr__(row, "axes", axes)
    object.__setattr__(row, "compared", tuple(row.compared))


def axis_value(value: Any, where: str, name: str) -> Value:
    if isinstance(value, str):
        check_name(value, where, name)
        return str.__str__(value)
    return value if isinstance(value, bool) else number(value, where, name, keep_whole=True)


def check_axis(name: object, where: str) -> None:
    if not isinstance(name, str) or not axis_name(name):
        raise RowError(f"{where}: an axis is called {shown(name)}; write a printable text without quotes and slashes")


@lru_cache(maxsize=1000)  # axes are few, rows are many
def axis_name(name: str) -> bool:
    """Return whether an axis may be called so."""
    return 0 < len(name) <= LONGEST_NAME and name.isprintable() and not NOT_IN_NAMES.search(name)


def set_count(record: Any, name: str, where: str, least: int) -> None:
    value = getattr(record, name)
    if value is None and record.__dataclass_fields__[name].default is None:
        return
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= MOST:
        raise RowError(f"{where}: {name} is {shown(value)}; write a whole number from {least}")
    object.__setattr__(record, name, int(value))


def set_number(record: Any, name: str, where: str, keep_whole: bool = False) -> None:
    value = getattr(record, name)
    if value is not None:
        object.__setattr__(record, name, number(value, where, name, keep_whole))


def number(value: Any, where: str, name: str, keep_whole: bool = False) -> float:
    """Numbers are stored as what they are: no nan, which databases turn into nothing, and whole ones only if asked."""
    if type(value) is float and isfinite(value):  # the usual case, quickly
        return value
    whole = isinstance(value, Integral) and -MOST <= int(value) <= MOST
    finite = whole or (isinstance(value, Real) and not isinstance(value, Integral) and isfinite(value))
    if isinstance(value, bool) or not finite:
        raise RowError(f"{where}: {name} is {shown(value)}; write a finite number")
    return int(value) if whole and keep_whole else float(value)


def stored(value: Any, where: str, name: str) -> Any:
    try:
        copy = json_value(value, name)
    except NotJsonError as error:
        raise RowError(f"{where}: {error}") from None
    if copy and (size := len(to_json(copy))) > LARGEST:
        raise RowError(f"{where}: {name} has {size} characters as JSON; write it to a file and store the file's name")
    return copy


def printable(text: str) -> str:
    return storable(text if len(text) <= LONGEST_ERROR else f"{text[: LONGEST_ERROR - 4]} ...")


def storable(text: str) -> str:
    """The text without what databases refuse: the character 0, and halves of characters from odd file names."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


@lru_cache(maxsize=1000)
def compared_axis(factor: str) -> str:
    """Return the name of the axis on which the variants of a factor are compared."""
    name = "".join(each if axis_name(each) else "_" for each in factor)
    return f"{name}_variant" if name in TRADING_AXES else name  # two axes cannot have one name


def with_axes(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row that was written when rows had a factor, an asset, a fold, a cost and BUY trades."""
    fields = dict(values)
    factor, variant, buys = (fields.pop(name, None) for name in ("factor", "variant", "buys"))
    axes = {name: fields.pop(name, None) for name in TRADING_AXES}
    compared = None
    if variant is not None:
        compared = compared_axis(factor or "variant")
        axes = {compared: variant, **axes}
    elif factor is not None:
        axes = {"factor": factor, **axes}
    if buys is not None:
        fields["metrics"] = {"buys": buys, **fields["metrics"]}
    return {**fields, "axes": {name: value for name, value in axes.items() if value is not None}, "compared": compared}
