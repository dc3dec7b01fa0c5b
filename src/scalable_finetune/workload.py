"""The trading workload: from bars to the row of a cell, stage by stage. What a sweep without ``run`` is made of."""

from __future__ import annotations

from scalable.workloads import Workload
from scalable_finetune.backtest import trades
from scalable_finetune.calibration import calibrated
from scalable_finetune.cleaning import cleaned
from scalable_finetune.events import events
from scalable_finetune.features import features, overlay
from scalable_finetune.folds import split
from scalable_finetune.labels import labels
from scalable_finetune.market import bars, btc_bars
from scalable_finetune.metrics import row
from scalable_finetune.search import search
from scalable_finetune.settings import DEFAULTS, check
from scalable_finetune.training import training

WORKLOAD = Workload(
    stages=(
        bars, btc_bars, features, overlay, events, labels, split, training, cleaned, search, calibrated, trades, row,
    ),
    unit="search",
    defaults=DEFAULTS,
    check=check,
    matrix=("training", lambda made: (len(made.train), len(made.names))),
)  # fmt: skip
