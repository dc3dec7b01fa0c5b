"""Sizes, money and time as types, so that CPUs are never added to gibibytes nor euros to dollars.

Every quantity is immutable, reads the texts people write (``parse``), prints itself the same way, and works as a
field type of the manifest models. Amounts are exact: CPUs in thousandths, memory in bytes, money in decimals.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from scalable.errors import QuantityError
from scalable.wording import shown

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

HOURS_PER_MONTH = 730  # what cloud price lists mean by a month
N = TypeVar("N", int, Decimal)
MOST_DIGITS = 28  # what decimals compute with; a longer text would be rounded without a word
LARGEST = 10**18  # no machine, bill or run of ours is larger; keeps arithmetic away from infinities


class Quantity:
    """The base of all quantities: reading from text, and being a field of a pydantic model."""

    __slots__ = ()
    noun: ClassVar[str]
    written: ClassVar[str]  # an example to show in messages and schemas
    pattern: ClassVar[str]  # JSON Schema's idea of the text form
    numbers: ClassVar[bool] = False  # whether a bare number is a text form too

    @classmethod
    def parse(cls, value: object) -> Self:
        """Return the quantity that was written, or given as one; raises ``QuantityError``."""
        return value if isinstance(value, cls) else cls.read(value)

    @classmethod
    def read(cls, value: object) -> Self:
        raise TypeError(f"{cls.__name__} does not say how it is written")

    @classmethod
    def text_of(cls, value: object) -> str:
        """Return the text of a quantity that may be written as a bare number, too."""
        text = number_text(value)
        if text is None:
            raise cls.refuse(value)
        return text

    @classmethod
    def match(cls, value: object, pattern: str, lacking: str) -> re.Match[str]:
        """Match a text that must name what a bare number is ``lacking``."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise cls.refuse(value, f": it has no {lacking}")
        matched = re.fullmatch(pattern, value) if isinstance(value, str) else None
        if matched is None:
            raise cls.refuse(value)
        return matched

    @classmethod
    def refuse(cls, value: object, why: str = "") -> QuantityError:
        return QuantityError(f"{shown(value)} is not {cls.noun}{why}", f"write e.g. {cls.written}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        text = {"type": "string", "pattern": cls.pattern, "examples": [cls.written]}
        return {"anyOf": [text, {"type": "number", "minimum": 0}]} if cls.numbers else text


@dataclass(frozen=True, slots=True, order=True)
class Cpu(Quantity):
    """Processor cores, to a thousandth."""

    millis: int
    noun: ClassVar[str] = "a number of CPUs"
    written: ClassVar[str] = '2, 7.8 or "500m"'
    pattern: ClassVar[str] = r"^\s*([0-9.]+|[0-9]+m)\s*$"
    numbers: ClassVar[bool] = True

    @classmethod
    def read(cls, value: object) -> Self:
        text = cls.text_of(value)
        thousandths = re.fullmatch(r"(\d{1,18})m", text)
        millis = Decimal(thousandths[1]) if thousandths else decimal(text, cls, value) * 1000
        if millis != int(millis):
            raise cls.refuse(value, ": CPUs are counted in thousandths")
        return cls(bounded(int(millis), cls, value))

    @classmethod
    def of(cls, cores: float) -> Self:
        return cls(round(cores * 1000))

    @property
    def cores(self) -> float:
        return self.millis / 1000

    def __add__(self, other: Cpu) -> Cpu:
        return Cpu(self.millis + other.millis) if isinstance(other, Cpu) else NotImplemented

    def __sub__(self, other: Cpu) -> Cpu:
        return Cpu(self.millis - other.millis) if isinstance(other, Cpu) else NotImplemented

    def __mul__(self, count: int) -> Cpu:
        return Cpu(self.millis * count) if isinstance(count, int) else NotImplemented

    def __str__(self) -> str:
        return decimal_text(Decimal(self.millis) / 1000)


MEMORY_UNITS = {
    "": 1,
    **{letter: 1000**power for power, letter in enumerate("kMGTP", 1)},
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTP", 1)},
}


OOM_HEADROOM = 1.5  # over a measured peak: it is seen in samples, and inputs grow


@dataclass(frozen=True, slots=True, order=True)
class Memory(Quantity):
    """Memory, to a byte. ``8Gi`` and ``8GiB`` are binary, ``8G`` and ``8GB`` decimal."""

    bytes: int
    noun: ClassVar[str] = "an amount of memory"
    written: ClassVar[str] = "8GiB or 20G"
    pattern: ClassVar[str] = r"^\s*[0-9.]+\s*([kKMGTP]i?)?B?\s*$"

    @classmethod
    def read(cls, value: object) -> Self:
        number, unit, byte = cls.match(value, r"\s*([\d.]+)\s*([kKMGTP]i?|)(B?)\s*", "unit").groups()
        if not unit and not byte:
            raise cls.refuse(value, ": it has no unit")
        unit = "k" if unit == "K" else unit
        return cls(bounded(int(decimal(number, cls, value) * MEMORY_UNITS[unit]), cls, value))

    @classmethod
    def of_gib(cls, gib: float) -> Self:
        return cls(round(gib * 1024**3))

    @property
    def gib(self) -> float:
        return self.bytes / 1024**3

    @property
    def exact(self) -> str:
        """A text that reads back to the same number of bytes."""
        for unit, size in (("GiB", 1024**3), ("MiB", 1024**2), ("GB", 1000**3), ("MB", 1000**2), ("KiB", 1024)):
            if self.bytes and self.bytes % size == 0:
                return f"{self.bytes // size}{unit}"
        return f"{self.bytes}B"

    @classmethod
    def to_ask_for(cls, peak: Memory | None, limit: Memory | None = None) -> Memory | None:
        """Return the size to ask for after running out of memory, or None if neither peak nor limit is known.

        Half as much again as was used. At least half as much again as the limit: what it was refused, or took between
        two looks, is in no peak.
        """
        known = [size.bytes for size in (peak, limit) if size is not None and size.bytes]
        if not known:
            return None
        wanted = int(max(known) * OOM_HEADROOM)
        step = 1024**3 if wanted > 2 * 1024**3 else 256 * 1024**2
        return Memory(-(-wanted // step) * step)

    def __add__(self, other: Memory) -> Memory:
        return Memory(self.bytes + other.bytes) if isinstance(other, Memory) else NotImplemented

    def __sub__(self, other: Memory) -> Memory:
        return Memory(self.bytes - other.bytes) if isinstance(other, Memory) else NotImplemented

    def __mul__(self, count: int) -> Memory:
        return Memory(self.bytes * count) if isinstance(count, int) else NotImplemented

    def __str__(self) -> str:
        written_decimal = not self.bytes % 10**6 and self.bytes % 1024**2
        names, base = (("TB", "GB", "MB", "kB"), 1000) if written_decimal else (("TiB", "GiB", "MiB", "KiB"), 1024)
        for power, name in zip((4, 3, 2, 1), names, strict=True):
            if self.bytes >= base**power:
                return f"{decimal_text(round(Decimal(self.bytes) / base**power, 2))} {name}"
        return f"{self.bytes} B"


@dataclass(frozen=True, slots=True, order=True)
class Duration(Quantity):
    """A length of time in seconds. A bare number is seconds; ``2h30m``, ``300s`` and ``04:00:00`` are texts."""

    seconds: float
    noun: ClassVar[str] = "a duration"
    written: ClassVar[str] = "300s, 10m, 2h30m or 04:00:00"
    pattern: ClassVar[str] = r"^\s*([0-9.]+\s*(d|h|m|min|s)\s*)+$|^[0-9]+(:[0-5][0-9]){2}$|^[0-9]+\s*h\s*[0-5][0-9]$"
    numbers: ClassVar[bool] = True

    @classmethod
    def read(cls, value: object) -> Self:
        text = cls.text_of(value)
        if clock := re.fullmatch(r"(\d{1,9}):([0-5]\d):([0-5]\d)", text):
            hours, minutes, seconds = map(int, clock.groups())
            return cls(float(hours * 3600 + minutes * 60 + seconds))
        if short := re.fullmatch(r"(\d{1,9})\s*h\s*([0-5]\d)", text):  # as it is printed
            return cls(float(int(short[1]) * 3600 + int(short[2]) * 60))
        if re.fullmatch(r"(\d[\d.]*\s*(d|h|min|m|s)\s*)+", text):
            unit = {"d": 86400, "h": 3600, "m": 60, "min": 60, "s": 1}
            parts = re.findall(r"([\d.]+)\s*(d|h|min|m|s)", text)
            total = sum((decimal(n, cls, value) * unit[u] for n, u in parts), Decimal(0))
            return cls(float(bounded(total, cls, value)))
        return cls(float(bounded(decimal(text, cls, value), cls, value)))

    @classmethod
    def of_walltime(cls, text: str) -> Self:
        """Return what a walltime such as ``1-04:00:00`` or ``04:00:00`` allows."""
        days, _, clock = text.rpartition("-")
        return cls(cls.parse(clock).seconds + 86400 * int(days or 0))

    @property
    def hours(self) -> float:
        return self.seconds / 3600

    @property
    def walltime(self) -> str:
        """The form that ``of_walltime`` and Slurm read: ``1-04:00:00``, ``04:00:00``."""
        minutes, seconds = divmod(round(self.seconds), 60)
        hours, minutes = divmod(minutes, 60)
        days, hours = divmod(hours, 24)
        return f"{f'{days}-' if days else ''}{hours:02}:{minutes:02}:{seconds:02}"

    def __str__(self) -> str:
        if self.seconds < 59.95:
            return f"{decimal_text(round(Decimal(repr(self.seconds)), 1))} s"
        minutes, seconds = divmod(round(self.seconds), 60)
        if minutes < 10:
            return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
        hours, minutes = divmod(minutes + (seconds >= 30), 60)
        if not hours:
            return f"{minutes} min"
        return f"{hours} h {minutes:02d}" if minutes else f"{hours} h"


class Amount(Quantity):
    """A number of one unit. Amounts in different units never combine."""

    __slots__ = ()
    amount: Decimal
    unit_field: ClassVar[str]  # that names the unit, e.g. the currency
    apart: ClassVar[tuple[str, str]]  # what two units are called, and what to write instead

    @classmethod
    def zero(cls, unit: str) -> Self:
        return cls(Decimal(0), unit)  # type: ignore[call-arg]

    def _same(self, other: Self) -> Self:
        if getattr(self, self.unit_field) != getattr(other, self.unit_field):
            units, remedy = self.apart
            raise QuantityError(f"{self} and {other} are in {units}", remedy)
        return other

    def _of(self, amount: Decimal) -> Self:
        return type(self)(amount, getattr(self, self.unit_field))  # type: ignore[call-arg]

    def __add__(self, other: Self) -> Self:
        return self._of(self.amount + self._same(other).amount) if isinstance(other, type(self)) else NotImplemented

    def __sub__(self, other: Self) -> Self:
        return self._of(self.amount - self._same(other).amount) if isinstance(other, type(self)) else NotImplemented

    def __lt__(self, other: Self) -> bool:
        return self.amount < self._same(other).amount if isinstance(other, type(self)) else NotImplemented

    def __le__(self, other: Self) -> bool:
        return self.amount <= self._same(other).amount if isinstance(other, type(self)) else NotImplemented

    def __gt__(self, other: Self) -> bool:
        return self.amount > self._same(other).amount if isinstance(other, type(self)) else NotImplemented


@dataclass(frozen=True, slots=True)
class Money(Amount):
    """An amount in one currency."""

    amount: Decimal
    currency: str
    unit_field: ClassVar[str] = "currency"
    apart: ClassVar[tuple[str, str]] = ("different currencies", "write all prices and budgets in one")
    noun: ClassVar[str] = "an amount of money"
    written: ClassVar[str] = "200 EUR"
    pattern: ClassVar[str] = r"^\s*([0-9.]+\s*[A-Z]{3}|[A-Z]{3}\s*[0-9.]+)\s*$"

    @classmethod
    def read(cls, value: object) -> Self:
        match = cls.match(value, r"\s*(?:([\d.]+)\s*([A-Z]{3})|([A-Z]{3})\s*([\d.]+))\s*", "currency")
        amount = decimal(match[1] or match[4], cls, value)
        return cls(bounded(amount, cls, value), match[2] or match[3])

    def __mul__(self, factor: float | Decimal) -> Money:
        if not isinstance(factor, int | float | Decimal):
            return NotImplemented
        return Money(self.amount * exact(factor), self.currency)

    def __str__(self) -> str:
        return f"{self.currency} {self.amount:.2f}"

    def to_dict(self) -> dict[str, Any]:
        """Return the shape ``{"amount", "currency"}`` of every JSON output; a tenth of a cent is kept."""
        return {"amount": round(float(self.amount), 4), "currency": self.currency}


@dataclass(frozen=True, slots=True)
class Price(Quantity):
    """Money for an hour of something. Monthly prices count 730 hours and remember how they were written."""

    money: Money
    per: str  # "h" or "month"
    noun: ClassVar[str] = "a price"
    written: ClassVar[str] = "0.1644 EUR/h or 60 EUR/month"
    pattern: ClassVar[str] = r"^\s*([0-9.]+\s*[A-Z]{3}|[A-Z]{3}\s*[0-9.]+)\s*/\s*(h|hour|month)\s*$"

    @classmethod
    def read(cls, value: object) -> Self:
        money, slash, per = value.partition("/") if isinstance(value, str) else ("", "", "")
        if not slash or per.strip() not in ("h", "hour", "month"):
            raise cls.refuse(value)
        try:
            return cls(Money.parse(money), "month" if per.strip() == "month" else "h")
        except QuantityError:
            raise cls.refuse(value) from None

    @property
    def hourly(self) -> Money:
        return self.money if self.per == "h" else Money(self.money.amount / HOURS_PER_MONTH, self.money.currency)

    @property
    def monthly(self) -> Money:
        return self.money if self.per == "month" else self.money * HOURS_PER_MONTH

    def __str__(self) -> str:
        return f"{self.money.currency} {decimal_text(self.money.amount)}/{self.per}"


class Share(float):
    """A part of a whole, from 0 to 1, written ``40%`` or ``0.4``."""

    written = "40%"

    @classmethod
    def parse(cls, value: object) -> Share:
        text = number_text(value)
        match = text is not None and re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*(%?)", text)
        if not match or len(match[1]) > MOST_DIGITS:
            raise QuantityError(f"{shown(value)} is not a share", f"write e.g. {cls.written}")
        number = Decimal(match[1]) / (100 if match[2] else 1)
        if number > 1:
            raise QuantityError(f"{shown(value)} is not between 0 % and 100 %", f"write e.g. {cls.written}")
        return cls(number)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.plain_serializer_function_ser_schema(float)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        text = {"type": "string", "pattern": r"^\s*[0-9.]+\s*%?\s*$", "examples": [cls.written]}
        return {"anyOf": [text, {"type": "number", "minimum": 0, "maximum": 1}]}

    def __str__(self) -> str:
        return f"{decimal_text(round(Decimal(float(self)) * 100, 1))} %"


def percent(share: float) -> str:
    return str(Share(share)) if 0 <= share <= 1 else f"{share * 100:.1f} %"


def number_text(value: object) -> str | None:
    """Return a number or a text as text, and nothing for all else (a bool is no number)."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, int) and abs(value) > LARGEST:
        return None
    return value.strip() if isinstance(value, str) else decimal_text(exact(value))


def exact(number: float | Decimal) -> Decimal:
    return number if isinstance(number, Decimal) else Decimal(repr(number))


def decimal_text(number: Decimal) -> str:
    """Return a decimal without exponent and without trailing zeros."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def decimal(text: str, kind: type[Quantity], value: object) -> Decimal:
    """Read a plain decimal of sane length: without exponents, a short text cannot mean a million digits."""
    if len(text) > MOST_DIGITS or not re.fullmatch(r"-?(\d+\.?\d*|\.\d+)", text):
        raise kind.refuse(value)
    return Decimal(text)


def bounded(number: N, kind: type[Quantity], value: object) -> N:
    if number < 0:
        raise kind.refuse(value, ": it is negative")
    if number > LARGEST:
        raise kind.refuse(value, ": it is too large")
    return number
