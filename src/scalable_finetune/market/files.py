"""Bars from files: ``<folder>/<ASSET>.csv`` or ``.parquet`` with time, open, high, low, close and volume.

Everything that would make a backtest lie is looked for before a bar is used, and refused with the file and the line it
stands in. Few bars may be missing, as exchanges have outages; how many is logged. The format is described in
docs/how-to/bring-your-own-market-data.md.
"""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scalable.workloads import Duration, located, percent, plural, undefined
from scalable_finetune.extras import needed
from scalable_finetune.market.bars import Bars
from scalable_finetune.market.errors import MarketDataError
from scalable_finetune.market.times import seconds_from

if TYPE_CHECKING:
    import polars

TIMES = ("time", "timestamp")
NUMBERS = ("open", "high", "low", "close", "volume")
SUFFIXES = (".csv", ".parquet")
MOST_MISSING = 0.02  # of all bars: a week a year; with more, returns across gaps pass for moves
FEWEST = 2  # bars that tell how long a bar lasts

logger = logging.getLogger(__name__)


def file_of(market: str, asset: str) -> Path:
    """The asset's file in a folder."""
    folder = located(market)
    if not folder.is_dir():
        raise MarketDataError(
            f"market: there is no folder {folder}; write synthetic, or a folder with {asset}.csv or {asset}.parquet"
        )
    found = [path for path in (folder / f"{asset}{suffix}" for suffix in SUFFIXES) if path.is_file()]
    if len(found) > 1:
        raise MarketDataError(f"{folder}: both {found[0].name} and {found[1].name} are there; remove one of them")
    if not found:
        assets = {path.stem for path in folder.iterdir() if path.suffix in SUFFIXES}
        raise MarketDataError(f"{folder}: {undefined('file of an asset', asset, assets)}")
    return found[0]


def digest(path: Path) -> str:
    """The content of a file in a few letters; it is read once as long as size and time of change stay the same."""
    try:
        state = path.stat()
        return digest_at(path, state.st_size, state.st_mtime_ns)
    except OSError as error:
        raise MarketDataError(f"{path} cannot be read: {error.strerror}") from None


@lru_cache(maxsize=1000)
def digest_at(path: Path, size: int, changed: int) -> str:
    with path.open("rb", buffering=0) as file:
        return file_digest(file, "sha256").hexdigest()


def read(path: Path, asset: str) -> Bars:
    """The bars of a file, checked."""
    table = table_of(path)
    place = Lines(path)
    names = columns_of(path, table.columns)
    if len(table) < FEWEST:
        raise MarketDataError(f"{path}: {plural(len(table), 'bar')}; at least {FEWEST} are needed")
    time = seconds_from(table[names["time"]], place.line)
    numbers = {name: numbers_from(table[names[name]], name, place) for name in NUMBERS}
    check_order(time, place)
    timeframe = step_of(time, place)
    check_prices(numbers, place)
    return Bars(asset=asset, timeframe=timeframe, time=time, **numbers)


class Lines:
    """Where a row stands: lines of a CSV file begin with 1 for the header, rows of a table have no header."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.noun, self.first = ("line", 2) if path.suffix == ".csv" else ("row", 1)

    def line(self, row: int) -> str:
        return f"{self.path}, {self.noun} {row + self.first}"

    def refuse(self, wrong: np.ndarray, message: str, remedy: str) -> None:
        """Raise for the first row that is wrong, if there is one; ``message`` may name ``{row}``."""
        rows = np.flatnonzero(wrong)
        if len(rows):
            others = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
            raise MarketDataError(f"{self.line(int(rows[0]))}: {message}{others}; {remedy}")


def table_of(path: Path) -> polars.DataFrame:
    """All of a file; texts of a CSV file stay as they are, so that a line can be named when one is no number."""
    frames = polars_module()
    try:
        if path.suffix == ".csv":
            table: polars.DataFrame = frames.read_csv(path, infer_schema=False)
        else:
            table = frames.read_parquet(path)
    except (frames.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        said = str(error).strip().splitlines()
        raise MarketDataError(f"{path} cannot be read: {said[0] if said else type(error).__name__}") from None
    return table.rename({name: name.strip().lower() for name in table.columns})


def polars_module() -> Any:
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # sweeps run a process per core; read when polars is imported
    return needed("polars")


def columns_of(path: Path, columns: list[str]) -> dict[str, str]:
    """Which column is which."""
    time = next((name for name in TIMES if name in columns), None)
    missing = [*([] if time else ["time"]), *(name for name in NUMBERS if name not in columns)]
    if missing or time is None:
        raise MarketDataError(
            f"{path}: no column {', '.join(missing)} among {', '.join(columns)}; name the columns time, "
            f"{', '.join(NUMBERS)}"
        )
    return {"time": time, **{name: name for name in NUMBERS}}


def numbers_from(column: polars.Series, name: str, place: Lines) -> np.ndarray:
    frames = polars_module()
    plain = column.str.strip_chars() if column.dtype == frames.String else column
    numbers = plain.cast(frames.Float64, strict=False).to_numpy()
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        text = column[int(np.argmax(wrong))]
        said = f"{name} is missing" if text is None or str(text).strip() == "" else f"{name} {text} is not a number"
        place.refuse(wrong, said, "correct it, or remove the line and leave a gap")
    return np.array(numbers, dtype=np.float64)


def check_order(time: np.ndarray, place: Lines) -> None:
    steps = np.diff(time, prepend=time[0] - 1)
    place.refuse(steps == 0, "the same time as the line before", "keep one bar of each time")
    place.refuse(steps < 0, "the time is before that of the line before", "sort the file by time")


def step_of(time: np.ndarray, place: Lines) -> int:
    """Seconds a bar lasts: the most frequent step. Refuses steps that are no multiple of it, and many missing bars."""
    steps = np.diff(time)
    values, counts = np.unique(steps, return_counts=True)
    step = int(values[np.argmax(counts)])
    off = np.concatenate(([False], steps % step != 0))
    usual = Duration(float(step))
    place.refuse(off, f"the time is not a multiple of {usual} after the line before", "bring bars of one length")
    gaps = steps > step
    missing = int(steps[gaps].sum() // step - gaps.sum())
    if missing:
        longest = int(np.argmax(steps))
        share = missing / (missing + len(time))
        said = (
            f"{plural(missing, 'bar')} ({percent(share)}) missing in {plural(int(gaps.sum()), 'gap')}, the longest of "
            f"{Duration(float(steps[longest] - step))} before {place.line(longest + 1)}"
        )
        if share > MOST_MISSING:
            raise MarketDataError(
                f"{place.path}: {said}; at most {percent(MOST_MISSING)} may be: fill the gaps, or begin after them"
            )
        logger.warning("%s: %s", place.path, said)
    return step


def check_prices(numbers: dict[str, np.ndarray], place: Lines) -> None:
    for name in ("open", "high", "low", "close"):
        place.refuse(numbers[name] <= 0, f"{name} is not above 0", "correct it, or remove the line and leave a gap")
    place.refuse(numbers["volume"] < 0, "volume is below 0", "write 0 where nothing was traded")
    place.refuse(numbers["high"] < numbers["low"], "high is below low", "are the two columns swapped?")
    for name in ("open", "close"):
        outside = (numbers[name] > numbers["high"]) | (numbers[name] < numbers["low"])
        place.refuse(outside, f"{name} is not between low and high", "correct it, or remove the line and leave a gap")
