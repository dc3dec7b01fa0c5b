"""Market data: bars of an asset, generated from a seed or read from a folder of files."""

from scalable_finetune.market.bars import BITCOIN, Bars, resample
from scalable_finetune.market.errors import MarketDataError
from scalable_finetune.market.loading import bars, btc_bars

__all__ = ["BITCOIN", "Bars", "MarketDataError", "bars", "btc_bars", "resample"]
