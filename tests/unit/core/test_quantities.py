"""Quantities read what people write, print it back, and refuse to mix."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalable.errors import QuantityError
from scalable.quantities import Cpu, Duration, Memory, Money, Price, Quantity, Share

GIB = 1024**3
KINDS: list[type[Quantity] | type[Share]] = [Cpu, Memory, Duration, Money, Price, Share]


@pytest.mark.parametrize(
    ("written", "millis"),
    [(2, 2000), (7.8, 7800), ("500m", 500), ("0.25", 250), (" 4 ", 4000), (0, 0), ("3.", 3000), (".5", 500)],
)
def test_cpus_are_read_to_a_thousandth(written: object, millis: int) -> None:
    assert Cpu.parse(written) == Cpu(millis)


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("8Gi", 8 * GIB),
        ("32GiB", 32 * GIB),
        ("20G", 20 * 10**9),
        ("20GB", 20 * 10**9),
        ("1.5 GiB", GIB * 3 // 2),
        ("512Mi", 512 * 1024**2),
        ("1Ti", 1024**4),
        ("1k", 1000),
        ("1K", 1000),
        ("1Ki", 1024),
        ("100B", 100),
    ],
)
def test_binary_and_decimal_memory_units_differ(written: str, size: int) -> None:
    assert Memory.parse(written) == Memory(size)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("2h30m", 9000),
        ("2h 30min", 9000),
        ("2 h 30", 9000),
        ("04:00:00", 14400),
        ("100:00:01", 360001),
        ("300s", 300),
        ("10m", 600),
        ("1.5h", 5400),
        ("1d", 86400),
        (90, 90),
        (0.5, 0.5),
        ("90", 90),
    ],
)
def test_durations_are_read_with_units_as_clock_and_as_seconds(written: object, seconds: float) -> None:
    assert Duration.parse(written) == Duration(seconds)


@pytest.mark.parametrize("written", ["EUR 200", "200 EUR", "200EUR", " EUR200 ", "200.00 EUR"])
def test_the_currency_may_stand_before_or_after_the_amount(written: str) -> None:
    assert Money.parse(written) == Money(Decimal(200), "EUR")


@pytest.mark.parametrize(("written", "part"), [("40%", 0.4), (0.4, 0.4), ("12.5 %", 0.125), (1, 1.0), ("0", 0.0)])
def test_shares_are_read_as_percent_or_fraction(written: object, part: float) -> None:
    assert Share.parse(written) == part


def test_monthly_and_hourly_prices_convert_by_730_hours() -> None:
    monthly, hourly = Price.parse("73 EUR/month"), Price.parse("EUR 0.1644 / h")

    assert str(monthly.hourly) == "EUR 0.10"
    assert hourly.monthly.amount == Decimal("0.1644") * 730
    assert monthly.monthly == Money.parse("73 EUR")
    assert hourly.hourly == Money.parse("0.1644 EUR")


@given(st.integers(0, 10**12).map(Cpu))
def test_printed_cpus_read_back_as_themselves(cpu: Cpu) -> None:
    assert Cpu.parse(str(cpu)) == cpu


@given(st.integers(0, 10**5), st.sampled_from([1, 1024, 1024**2, GIB, 1024**4]))
def test_printed_memory_reads_back_within_its_two_decimals(count: int, unit: int) -> None:
    memory = Memory(count * unit)

    read = Memory.parse(str(memory))

    assert abs(read.bytes - memory.bytes) <= memory.bytes // 200 + 1


@given(st.integers(0, 500), st.sampled_from(["B", "KiB", "MiB", "GiB", "TiB"]))
def test_whole_units_of_memory_print_as_written(count: int, unit: str) -> None:
    memory = Memory.parse(f"{count}{unit}")

    assert Memory.parse(str(memory)) == memory


@given(st.floats(0, 1e9))
def test_printed_durations_read_back_within_what_is_shown(seconds: float) -> None:
    read = Duration.parse(str(Duration(seconds)))

    shown_to = 0.06 if seconds < 60 else 1 if seconds < 600 else 60
    assert abs(read.seconds - seconds) <= shown_to


@given(st.integers(0, 10**12), st.sampled_from(["EUR", "USD", "CHF"]))
def test_printed_money_reads_back_as_itself(cents: int, currency: str) -> None:
    money = Money(Decimal(cents) / 100, currency)

    assert Money.parse(str(money)) == money


@given(st.decimals(0, 10**6, places=5), st.sampled_from(["h", "month"]))
def test_printed_prices_read_back_as_themselves(amount: Decimal, per: str) -> None:
    price = Price(Money(amount, "EUR"), per)

    assert Price.parse(str(price)) == price


@given(st.integers(0, 1000))
def test_printed_shares_read_back_as_themselves(tenths: int) -> None:
    share = Share(tenths / 1000)

    assert Share.parse(str(share)) == pytest.approx(share)


@pytest.mark.parametrize("quantity", [Cpu(1500), Memory(5), Duration(3.5), Money.zero("EUR"), Price.parse("1 EUR/h")])
def test_a_quantity_reads_as_itself(quantity: Quantity) -> None:
    assert type(quantity).parse(quantity) is quantity


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.96, "1 min"),
        (90, "1 min 30 s"),
        (754, "13 min"),
        (3599.6, "1 h"),
        (9000, "2 h 30"),
        (7205, "2 h"),
    ],
)
def test_durations_print_as_people_say_them(seconds: float, text: str) -> None:
    assert str(Duration(seconds)) == text


WRONG: dict[type[Quantity] | type[Share], list[object]] = {
    Cpu: ["", "two", "500 m", "1.2.3", "-1", -1, "-500m", "0.0001", 0.00001, "1e3", "4 CPU", "8GiB", "1,5"],
    Memory: ["", 8, 8.5, "8", "8 gb", "GiB", "-8GiB", "8EiB", "8Gib", "1.2.3GiB", "1e3GiB", "8 GiB RAM"],
    Duration: ["", "soon", "-5s", -5, "5 weeks", "4:00", "04:60:00", "04:00:61", "1.2.3h", "h", "1e3s", "2h30x"],
    Money: ["", 200, 2.5, "200", "EUR", "200 eur", "200 €", "-200 EUR", "1,000 EUR", "1.2.3 EUR", "EUR 1 EUR"],
    Price: ["", 0.1644, "0.1644", "0.1644 EUR", "0.1644 EUR/day", "abc/h", "-1 EUR/h", "0.16/h", "/h", "1.2.3 EUR/h"],
    Share: ["", "half", "140%", 1.5, "-4%", -0.4, "1.2.3%", "%", "1e-1", "40%%"],
}
NEVER: list[object] = [
    None,
    True,
    False,
    [],
    {},
    b"1",
    float("nan"),
    float("inf"),
    float("-inf"),
    "nan",
    "inf",
    "Infinity",
    1e300,
    10**30,
    10**5000,
    -(10**5000),
    "9" * 41,
    "9" * 100_000,
    "1e1000000000",
    "0x10",
    "1_000",
]


def named(value: object) -> str:
    return value.__name__ if isinstance(value, type) else ascii(value)[:20] if not isinstance(value, int) else "number"


@pytest.mark.parametrize(
    ("kind", "written"), [(kind, value) for kind in KINDS for value in (*WRONG[kind], *NEVER)], ids=named
)
def test_wrong_input_is_refused_with_what_to_write(kind: type[Quantity] | type[Share], written: object) -> None:
    with pytest.raises(QuantityError) as refused:
        kind.parse(written)

    assert refused.value.remedy == f"write e.g. {kind.written}"
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (Cpu, "9999999999999999999"),
        (Memory, "9999999PiB"),
        (Duration, "99999999999999999d"),
        (Money, "9999999999999999999 EUR"),
    ],
)
def test_what_no_machine_or_bill_can_be_is_too_large(kind: type[Quantity], written: str) -> None:
    with pytest.raises(QuantityError, match="too large"):
        kind.parse(written)


def test_a_missing_unit_or_currency_is_named() -> None:
    with pytest.raises(QuantityError, match="8 is not an amount of memory: it has no unit"):
        Memory.parse(8)
    with pytest.raises(QuantityError, match="200 is not an amount of money: it has no currency"):
        Money.parse(200)
    with pytest.raises(QuantityError, match="CPUs are counted in thousandths"):
        Cpu.parse("0.0001")


@pytest.mark.parametrize("kind", KINDS)
@given(value=st.one_of(st.text(max_size=30), st.floats(), st.integers(), st.none(), st.booleans()))
def test_any_input_is_read_or_refused_but_never_crashes(kind: type[Quantity] | type[Share], value: object) -> None:
    try:
        read = kind.parse(value)
    except QuantityError as refused:
        assert refused.remedy
    else:
        assert isinstance(read, kind)


AMOUNTS: list[Any] = [Cpu(1), Memory(1), Duration(1), Money.zero("EUR"), Price.parse("1 EUR/h"), 1, "1"]
OPERATORS = [operator.add, operator.sub, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize("combine", OPERATORS)
@pytest.mark.parametrize(
    ("left", "right"),
    [(a, b) for a in AMOUNTS for b in AMOUNTS if isinstance(a, Quantity) and type(a) is not type(b)],
    ids=str,
)
def test_quantities_of_different_kinds_never_combine(combine: Callable[[Any, Any], Any], left: Any, right: Any) -> None:
    with pytest.raises(TypeError):
        combine(left, right)
    with pytest.raises(TypeError):
        combine(right, left)


@pytest.mark.parametrize("combine", OPERATORS)
def test_amounts_in_different_currencies_never_combine(combine: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(QuantityError, match=r"(EUR|USD) 1\.00 are in different currencies; write all prices"):
        combine(Money.parse("1 EUR"), Money.parse("1 USD"))


@pytest.mark.parametrize("quantity", [Cpu(1), Memory(1), Money.zero("EUR")])
def test_a_quantity_is_multiplied_by_numbers_only(quantity: Any) -> None:
    assert quantity * 3 == quantity + quantity + quantity
    for factor in (quantity, "2", None):
        with pytest.raises(TypeError):
            quantity * factor


def test_workers_are_counted_whole() -> None:
    with pytest.raises(TypeError):
        Cpu(1) * 1.5  # type: ignore[operator]
    with pytest.raises(TypeError):
        Memory(1) * 1.5  # type: ignore[operator]


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_sums_and_differences_are_exact(one: int, other: int) -> None:
    assert Cpu(one) + Cpu(other) - Cpu(other) == Cpu(one)
    assert Memory(one) + Memory(other) - Memory(other) == Memory(one)
    left, right = Money(Decimal(one) / 100, "EUR"), Money(Decimal(other) / 100, "EUR")
    assert left + right - right == left
    assert (left <= right) == (one <= other) and (left > right) == (one > other)


def test_money_times_a_float_does_not_gain_binary_dust() -> None:
    assert Money.parse("0.1644 EUR") * 0.1 == Money(Decimal("0.01644"), "EUR")


def test_money_for_machines_keeps_a_tenth_of_a_cent() -> None:
    assert Money.parse("0.16443 EUR").to_dict() == {"amount": 0.1644, "currency": "EUR"}


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(QuantityError, match=r"'x{58}… is not") as refused:
        Memory.parse("x" * 1000)

    assert "x" * 61 not in str(refused.value)
