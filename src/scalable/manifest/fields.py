"""Field types of the manifest models whose error messages say what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, WithJsonSchema

from scalable.axes import parse_axes
from scalable.errors import QuantityError
from scalable.manifest.tree import FromVariable, plain_value
from scalable.plugins import Checked
from scalable.quantities import Duration
from scalable.wording import shown


class Section(BaseModel):
    """Base of all manifest models: immutable, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


LAST_PORT = 65_535
MOST = 1_000_000  # of anything that is counted one by one: workers, nodes, folds, sessions


def importable(run: str | None) -> str | None:
    """Return a function by where it is imported from."""
    if run is not None and not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", run):
        raise QuantityError(f"{shown(run)} names no function", "write package.module:function")
    return run


def as_number(value: object) -> object:
    return plain_value(value) if isinstance(value, FromVariable) else value


def whole(minimum: int, most: int = MOST) -> Callable[[object, ValidationInfo], int]:
    kind = "a positive integer" if minimum == 1 else f"a whole number of at least {minimum}"

    def check(value: object, info: ValidationInfo) -> int:
        value = as_number(value)
        name = info.field_name or "it"
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise QuantityError(f"{name} must be {kind}, not {shown(value)}", f"write e.g. {name}: {max(minimum, 4)}")
        if value > most:
            raise QuantityError(f"{name} is {value:,}; more than {most:,} cannot be planned", f"write at most {most}")
        return value

    return check


def port(value: object, info: ValidationInfo) -> int:
    port_number = whole(1)(value, info)
    if port_number > LAST_PORT:
        raise QuantityError(f"{port_number} is no port", f"write one from 1024 to {LAST_PORT}")
    return port_number


def number(minimum: float, *, exclusive: bool = False) -> Callable[[object, ValidationInfo], float]:
    kind = f"a number {'above' if exclusive else 'of at least'} {minimum:g}"

    def check(value: object, info: ValidationInfo) -> float:
        value = as_number(value)
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if not good or not minimum <= value < 1e12 or (exclusive and value == minimum):  # type: ignore[operator]
            name = info.field_name or "it"
            raise QuantityError(f"{name} must be {kind}, not {shown(value)}", f"write e.g. {name}: 3.5")
        return float(value)  # type: ignore[arg-type]

    return check


def word(value: object, info: ValidationInfo) -> str:
    if not isinstance(value, str) or not value.strip():
        name = info.field_name or "it"
        raise QuantityError(f"{name} must be a non-empty text, not {shown(value)}", 'quote it if it is a number: "2.0"')
    return value


BOOLS = {**dict.fromkeys(("true", "yes", "on"), True), **dict.fromkeys(("false", "no", "off"), False)}


def boolean(value: object, info: ValidationInfo) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in BOOLS:
        return BOOLS[value.lower()]
    raise QuantityError(f"{info.field_name or 'it'} must be true or false, not {shown(value)}", "write true or false")


def positive(value: object, info: ValidationInfo) -> Duration:
    duration = Duration.parse(value)
    if duration.seconds <= 0:
        raise QuantityError(f"{info.field_name} must be longer than nothing", f"write e.g. {info.field_name}: 10m")
    return duration


def single(value: object) -> object:
    """Give one message for what is none of them, instead of one for each thing it could have been."""
    if not isinstance(value, str | int | float):
        raise QuantityError(f"{shown(value)} is no single value", "write a text, a number, true or false")
    return value


def one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


def one_word(value: str) -> str:
    if len(value.split()) != 1:
        raise QuantityError(f"{shown(value)} is no name of a module", "write one module in each item: [gcc/12, cuda]")
    return value


def one_line(value: str, info: ValidationInfo) -> str:
    if len(value.splitlines()) != 1:
        raise QuantityError(f"{info.field_name} must be one line, not {shown(value)}", "write more lines in setup: |")
    return value


def shell_lines(value: object, info: ValidationInfo) -> str:
    if not isinstance(value, str) or not value.strip():
        remedy = f"write  {info.field_name}: |  and the lines below it, indented"
        raise QuantityError(f"{info.field_name} must be shell lines, not {shown(value)}", remedy)
    return value


def axes(value: object) -> object:
    """Return the values of axes; a variable may stand for a number, a range or one of several values."""
    if not isinstance(value, dict):
        return parse_axes(value)
    if value and all(isinstance(values, Checked) for values in value.values()):
        return {name: tuple(values) for name, values in value.items()}
    inner = {
        name: [*map(as_number, item)] if isinstance(item, list) else as_number(item) for name, item in value.items()
    }
    return parse_axes(inner)


def _integer(minimum: int) -> Any:
    return WithJsonSchema({"type": "integer", "minimum": minimum})


Text = Annotated[str, BeforeValidator(word), WithJsonSchema({"type": "string", "minLength": 1})]
Importable = Annotated[Text | None, AfterValidator(importable)]
Flag = Annotated[bool, BeforeValidator(boolean), WithJsonSchema({"type": "boolean"})]
Count = Annotated[int, BeforeValidator(whole(1)), _integer(1)]
Many = Annotated[int, BeforeValidator(whole(1, 10**12)), _integer(1)]
Port = Annotated[int, BeforeValidator(port), WithJsonSchema({"type": "integer", "minimum": 1, "maximum": LAST_PORT})]
CountOrNone = Annotated[int, BeforeValidator(whole(0)), _integer(0)]
Amount = Annotated[float, BeforeValidator(number(0)), WithJsonSchema({"type": "number", "minimum": 0})]
Positive = Annotated[
    float, BeforeValidator(number(0, exclusive=True)), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})
]
Wait = Annotated[Duration, BeforeValidator(positive)]
ONE_TEXT = {"type": "string", "minLength": 1}
Texts = Annotated[
    list[Text],
    BeforeValidator(one_or_many),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [ONE_TEXT, {"type": "array", "minItems": 1, "items": ONE_TEXT}]}),
]
ShellLines = Annotated[str, BeforeValidator(shell_lines), WithJsonSchema({"type": "string", "minLength": 1})]
Line = Annotated[Text, AfterValidator(one_line)]
Modules = Annotated[
    list[Annotated[Text, AfterValidator(one_word)]],
    BeforeValidator(one_or_many),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [ONE_TEXT, {"type": "array", "minItems": 1, "items": ONE_TEXT}]}),
]
Variant = Annotated[str | int | float | bool, BeforeValidator(single)]
ONE_VALUE = {"type": ["string", "number", "boolean"]}
AxisValues = Annotated[
    dict[str, tuple[Variant, ...]],
    BeforeValidator(axes),
    WithJsonSchema(
        {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {
                "anyOf": [
                    {"type": "integer", "minimum": 1},
                    {"type": "string", "pattern": r"\.\."},
                    {"type": "array", "minItems": 1, "items": ONE_VALUE},
                ]
            },
        }
    ),
]
