"""Times of a file as seconds since 1970 UTC.

Numbers are counted from 1970 UTC in seconds, milli-, micro- or nanoseconds, told apart by their size. Texts and dates
must say their time zone: a time without one may be any of 26 hours, and an hour off lets a model see the future.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalable_finetune.market.errors import MarketDataError

if TYPE_CHECKING:
    import polars

ZONED = r"(?:[zZ]|[+-]\d{2}:?\d{2})$"
LATEST = 5_000_000_000  # seconds, in 2128: larger numbers count in smaller units
PER_SECOND = (1, 1_000, 1_000_000, 1_000_000_000)
FORMATS = ("%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M%#z")
REMEDY = "write 2024-05-01T00:00:00Z, an offset such as +02:00, or seconds since 1970 UTC"


def seconds_from(column: polars.Series, line: Callable[[int], str]) -> NDArray[np.int64]:
    import polars as frames

    def refuse(row: int, why: str) -> MarketDataError:
        return MarketDataError(f"{line(row)}: the time {column[row]} {why}; {REMEDY}")

    if column.null_count():
        row = column.is_null().arg_max() or 0
        raise MarketDataError(f"{line(row)}: the time is missing; {REMEDY}")
    kind = column.dtype
    if isinstance(kind, frames.Datetime):
        if kind.time_zone is None:
            raise refuse(0, "has no time zone")
        return whole(column.dt.epoch("ms").to_numpy(), 1_000, refuse)
    if kind == frames.String:
        column = column.str.strip_chars()
        numbers = column.cast(frames.Int64, strict=False)
        if numbers.null_count():
            return seconds_of_texts(column, refuse)
        column = numbers
    if not column.dtype.is_integer():
        raise refuse(0, f"is a {column.dtype}")
    counted = column.cast(frames.Int64).to_numpy()
    per_second = next((unit for unit in PER_SECOND if np.abs(counted).max() <= LATEST * unit), PER_SECOND[-1])
    return whole(counted, per_second, refuse)


def seconds_of_texts(column: Any, refuse: Callable[[int, str], MarketDataError]) -> NDArray[np.int64]:
    import polars as frames

    naive = ~column.str.contains(ZONED)
    plain = column.str.replace(" ", "T").str.replace("[zZ]$", "+0000")
    parsed = frames.Series([None] * len(column), dtype=frames.Datetime("ms", "UTC"))
    for form in FORMATS:
        found = plain.str.to_datetime(form, time_unit="ms", time_zone="UTC", strict=False)
        parsed = parsed.fill_null(found) if parsed.null_count() < len(parsed) else found
        if not parsed.null_count():
            break
    if naive.any():
        row = naive.arg_max() or 0
        digits = column[row][:1].isdigit() and "-" in column[row]
        raise refuse(row, "has no time zone" if digits else "cannot be read")
    if parsed.null_count():
        raise refuse(parsed.is_null().arg_max() or 0, "cannot be read")
    return whole(parsed.dt.epoch("ms").to_numpy(), 1_000, refuse)


def whole(
    counted: NDArray[np.int64], per_second: int, refuse: Callable[[int, str], MarketDataError]
) -> NDArray[np.int64]:
    broken = counted % per_second != 0
    if broken.any():
        raise refuse(int(np.argmax(broken)), "is not a whole second")
    return np.array(counted // per_second, dtype=np.int64)
