"""Bars of your own: what is read, and what is refused with its line."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars
import pytest

from scalable_finetune.market import MarketDataError, bars, btc_bars
from scalable_finetune.market.bars import Bars
from scalable_finetune.market.files import digest, file_of, read
from scalable_finetune.market.loading import bitcoin_files_of, files_of
from tests.helpers.finetune.data.builders import HOUR, MONDAY

HEADER = "time,open,high,low,close,volume"


def lines(count: int = 48, step: int = HOUR) -> list[str]:
    return [f"{MONDAY + step * n},100,102,99,{100 + n % 3},{n}" for n in range(count)]


def written(folder: Path, rows: list[str], header: str = HEADER, name: str = "AAVEUSDC.csv") -> Path:
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def loaded(folder: Path, rows: list[str], header: str = HEADER) -> Bars:
    return read(written(folder, rows, header), "AAVEUSDC")


def with_line(number: int, text: str) -> list[str]:
    """Good lines with one of the file replaced; line 1 is the header."""
    rows = lines()
    rows[number - 2] = text
    return rows


def test_a_csv_file_is_read(tmp_path: Path) -> None:
    found = loaded(tmp_path, lines())
    assert (found.asset, found.timeframe, len(found)) == ("AAVEUSDC", HOUR, 48)
    assert found.time[:2].tolist() == [MONDAY, MONDAY + HOUR]
    assert [float(each[1]) for each in (found.open, found.high, found.low, found.close, found.volume)] == [
        100,
        102,
        99,
        101,
        1,
    ]


@pytest.mark.parametrize(
    "time",
    [
        "{at:%Y-%m-%dT%H:%M:%SZ}",
        "{at:%Y-%m-%d %H:%M:%S+00:00}",
        "{at:%Y-%m-%dT%H:%M:%S.000+0000}",
        "{at:%Y-%m-%dT%H:%MZ}",
        "{berlin:%Y-%m-%dT%H:%M:%S}+01:00",
        "{seconds}",
        "{seconds}000",
        "{seconds}000000",
        "{seconds}000000000",
    ],
)
def test_times_may_have_any_offset_or_be_counted_from_1970(tmp_path: Path, time: str) -> None:
    rows = []
    for n in range(30):
        at = datetime.fromtimestamp(MONDAY + HOUR * n, UTC)
        rows.append(time.format(at=at, berlin=at + timedelta(hours=1), seconds=MONDAY + HOUR * n) + ",1,1,1,1,1")
    assert loaded(tmp_path, rows, "Timestamp,Open,High,Low,Close,Volume").time.tolist() == [
        MONDAY + HOUR * n for n in range(30)
    ]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_a_parquet_file_is_read_whatever_its_zone(tmp_path: Path, zone: str) -> None:
    table(zone).write_parquet(tmp_path / "AAVEUSDC.parquet")
    found = read(file_of(str(tmp_path), "AAVEUSDC"), "AAVEUSDC")
    assert found.time[:2].tolist() == [MONDAY, MONDAY + HOUR]


def table(zone: str | None, **columns: Any) -> polars.DataFrame:
    times = [datetime.fromtimestamp(MONDAY + HOUR * n, UTC).replace(tzinfo=None) for n in range(30)]
    time = polars.Series(times).dt.replace_time_zone("UTC")
    time = time.dt.convert_time_zone(zone) if zone else time.dt.replace_time_zone(None)
    prices = {name: [1.0] * 30 for name in ("open", "high", "low", "close", "volume")}
    return polars.DataFrame({"time": time, **prices, **columns})


def test_rows_of_a_table_are_named_by_number(tmp_path: Path) -> None:
    table("UTC", low=[1.0] * 6 + [None] + [1.0] * 23).write_parquet(tmp_path / "AAVEUSDC.parquet")
    with pytest.raises(MarketDataError, match=r"AAVEUSDC.parquet, row 7: low is missing"):
        read(tmp_path / "AAVEUSDC.parquet", "AAVEUSDC")


def test_a_table_without_time_zone_is_refused(tmp_path: Path) -> None:
    table(None).write_parquet(tmp_path / "AAVEUSDC.parquet")
    with pytest.raises(MarketDataError, match=r"row 1: the time 2024-01-01 00:00:00 has no time zone; write .*Z"):
        read(tmp_path / "AAVEUSDC.parquet", "AAVEUSDC")


AT = MONDAY + 10 * HOUR  # the time of line 12


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"{AT},100,102,99,x,1", r"line 12: close x is not a number; correct it"),
        (f"{AT},100,102,99,NaN,1", r"line 12: close NaN is not a number"),
        (f"{AT},100,102,99,inf,1", r"line 12: close inf is not a number"),
        (f"{AT},100,102,99,,1", r"line 12: close is missing"),
        (f"{AT},-100,102,99,100,1", r"line 12: open is not above 0"),
        (f"{AT},100,102,0,100,1", r"line 12: low is not above 0"),
        (f"{AT},100,99,102,100,1", r"line 12: high is below low; are the two columns swapped\?"),
        (f"{AT},103,102,99,100,1", r"line 12: open is not between low and high"),
        (f"{AT},100,102,99,98,1", r"line 12: close is not between low and high"),
        (f"{AT},100,102,99,100,-1", r"line 12: volume is below 0; write 0"),
        (f"{AT - HOUR},100,102,99,100,1", r"line 12: the same time as the line before; keep one bar"),
        (f"{AT - 2 * HOUR},100,102,99,100,1", r"line 12: the time is before that of the line before; sort the file"),
        (
            f"{AT + 60},100,102,99,100,1",
            r"line 12: the time is not a multiple of 1 h after the line before \(and 1 more\)",
        ),
        ("2024-01-01T10:00:00,100,102,99,100,1", r"line 12: the time 2024-01-01T10:00:00 has no time zone; write"),
        (",100,102,99,100,1", r"line 12: the time is missing"),
        ("noon,100,102,99,100,1", r"line 12: the time noon cannot be read"),
    ],
)
def test_what_would_make_a_backtest_lie_is_refused_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    rows = with_line(12, line)
    if "T" in line or line.startswith(("noon",)):
        times = [datetime.fromtimestamp(MONDAY + HOUR * n, UTC).isoformat() for n in range(len(rows))]
        rows = [
            row if row == line else ",".join([at, *row.split(",")[1:]]) for at, row in zip(times, rows, strict=True)
        ]
    with pytest.raises(MarketDataError, match=message):
        loaded(tmp_path, rows)


def test_a_time_without_zone_anywhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MarketDataError, match=r"line 2: the time 2024-01-01 00:00 has no time zone"):
        loaded(tmp_path, ["2024-01-01 00:00,1,1,1,1,1", "2024-01-01 01:00,1,1,1,1,1"])


def test_a_time_between_seconds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MarketDataError, match=r"line 3: the time 1704070800500 is not a whole second"):
        loaded(tmp_path, [f"{MONDAY}000,1,1,1,1,1", f"{MONDAY + HOUR}500,1,1,1,1,1"])


def test_a_missing_column_is_named_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(MarketDataError, match=r"no column time, volume among date, open, high, low, close, size"):
        loaded(tmp_path, lines(), "date,open,high,low,close,size")


def test_few_missing_bars_are_logged_and_many_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = lines(1000)
    with caplog.at_level(logging.WARNING):
        found = loaded(tmp_path, rows[:500] + rows[503:])
    assert len(found) == 997
    assert "3 bars (0.3 %) missing in 1 gap, the longest of 3 h before" in caplog.text
    assert "line 502" in caplog.text
    with pytest.raises(MarketDataError, match=r"100 bars \(10 %\) missing in 1 gap, .* at most 2 % may be"):
        loaded(tmp_path, rows[:500] + rows[600:])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "cannot be read"),
        (HEADER + "\n", "0 bars; at least 2 are needed"),
        (HEADER + "\n1,2,3,4,5,6,7,8\n", "cannot be read"),
    ],
)
def test_a_file_without_bars_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "AAVEUSDC.csv"
    path.write_text(content)
    with pytest.raises(MarketDataError, match=message):
        read(path, "AAVEUSDC")


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "AAVEUSDC.parquet"
    path.write_bytes(b"not a table")
    with pytest.raises(MarketDataError, match=r"AAVEUSDC.parquet cannot be read: "):
        read(path, "AAVEUSDC")


def test_a_missing_folder_or_file_is_said_with_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(
        MarketDataError, match=r"there is no folder .*none; write synthetic, or a folder with UNIUSDC.csv"
    ):
        file_of(str(tmp_path / "none"), "UNIUSDC")
    written(tmp_path, lines())
    with pytest.raises(MarketDataError, match=r"'AAVEUSDT' is not defined; known: AAVEUSDC"):
        file_of(str(tmp_path), "AAVEUSDT")
    table("UTC").write_parquet(tmp_path / "AAVEUSDC.parquet")
    with pytest.raises(MarketDataError, match=r"both AAVEUSDC.csv and AAVEUSDC.parquet are there; remove one"):
        file_of(str(tmp_path), "AAVEUSDC")


def test_the_stages_read_a_folder_at_their_timeframe_and_at_most_so_many_years(tmp_path: Path) -> None:
    rows = [row.replace(",100,", ",100.5,", 1) for row in lines(400 * 24)]
    written(tmp_path, rows)
    written(tmp_path, rows, name="BTCUSDC.csv")
    source: dict[str, Any] = {"market": str(tmp_path), "market_seed": 0, "timeframe": "4h"}
    assert len(bars(asset="AAVEUSDC", years=3.0, **source)) == 400 * 6
    year = btc_bars(years=1.0, **source)
    assert (year.asset, year.timeframe) == ("BTCUSDC", 4 * HOUR)
    assert len(year) == pytest.approx(365.25 * 6, abs=1)
    assert year.time[-1] + year.timeframe == MONDAY + 400 * 24 * HOUR


def test_bars_too_few_for_one_of_the_timeframe_are_told(tmp_path: Path) -> None:
    written(tmp_path, lines(3))
    with pytest.raises(MarketDataError, match="AAVEUSDC has 3 bars of 1 h, which make no whole bar of 4h"):
        bars(asset="AAVEUSDC", market=str(tmp_path), years=3.0, market_seed=0, timeframe="4h")


def test_the_content_of_the_file_counts_and_not_its_name_or_age(tmp_path: Path) -> None:
    path = written(tmp_path, lines())
    before = digest(path)
    os.utime(path, (1, 1))
    assert digest(path) == before
    with path.open("a") as file:
        file.write(f"{MONDAY + 48 * HOUR},1,1,1,1,1\n")
    assert digest(path) != before
    options: dict[str, Any] = {"market": str(tmp_path), "years": 3.0, "market_seed": 0, "timeframe": "1h"}
    assert files_of(asset="AAVEUSDC", **options) == digest(path)
    assert files_of(asset="AAVEUSDC", **{**options, "market": "synthetic"}) == ""
    with pytest.raises(MarketDataError, match="BTCUSDC"):
        bitcoin_files_of(**options)
