"""Market data: bars of an asset, generated from a seed or read from a folder of files."""

from scalable.finetune.market.bars import BITCOIN, Bars, resample
from scalable.finetune.market.errors import MarketDataError
from scalable.finetune.market.loading import bars, btc_bars

__all__ = ["BITCOIN", "Bars", "MarketDataError", "bars", "btc_bars", "resample"]
