"""The stages that bring an asset's bars: from the generator, or from a folder of files, at the timeframe asked for."""

from __future__ import annotations

from scalable.workloads import Duration, plural, stage
from scalable_finetune.market.bars import BITCOIN, DAY, Bars, resample, seconds_of, span
from scalable_finetune.market.errors import MarketDataError
from scalable_finetune.market.files import digest, file_of, read
from scalable_finetune.market.generator import DAYS_PER_YEAR, generate

SYNTHETIC = "synthetic"


def files_of(*, asset: str, market: str, years: float, market_seed: int, timeframe: str) -> str:
    """What the stage ``bars`` reads besides its configuration: the content of the asset's file."""
    return "" if market == SYNTHETIC else digest(file_of(market, asset))


def bitcoin_files_of(*, market: str, years: float, market_seed: int, timeframe: str) -> str:
    return files_of(asset=BITCOIN, market=market, years=years, market_seed=market_seed, timeframe=timeframe)


READS = ("market", "years", "market_seed", "timeframe")
USES = ("numpy",)  # draws of its generators may change between versions


@stage(reads=("asset", *READS), uses=USES, inputs=files_of)
def bars(*, asset: str, market: str, years: float, market_seed: int, timeframe: str) -> Bars:
    """An asset's bars; of files at most the last ``years``, which they need not reach."""
    return loaded(asset, market, years, market_seed, timeframe)


@stage(reads=READS, uses=USES, inputs=bitcoin_files_of)
def btc_bars(*, market: str, years: float, market_seed: int, timeframe: str) -> Bars:
    """The same of Bitcoin, for what compares an asset with it."""
    return loaded(BITCOIN, market, years, market_seed, timeframe)


def loaded(asset: str, market: str, years: float, market_seed: int, timeframe: str) -> Bars:
    if market == SYNTHETIC:
        found = generate(asset, market_seed, years)
    else:
        found = read(file_of(market, asset), asset)
        begin = found.time[-1] + found.timeframe - round(years * DAYS_PER_YEAR * DAY)
        found = span(found, int(found.time.searchsorted(begin)), len(found))
    made = resample(found, seconds_of(timeframe, "timeframe"))
    if not len(made):
        have = f"{plural(len(found), 'bar')} of {Duration(float(found.timeframe))}"
        raise MarketDataError(f"{asset} has {have}, which make no whole bar of {timeframe}; bring more of them")
    return made
