"""The trading workload: from bars to the row of a cell, stage by stage. What a sweep without ``run`` is made of."""

from __future__ import annotations

from scalable.finetune.backtest import trades
from scalable.finetune.calibration import calibrated
from scalable.finetune.cleaning import cleaned
from scalable.finetune.events import events
from scalable.finetune.features import features, overlay
from scalable.finetune.folds import split
from scalable.finetune.labels import labels
from scalable.finetune.market import bars, btc_bars
from scalable.finetune.metrics import row
from scalable.finetune.search import search
from scalable.finetune.settings import DEFAULTS, check
from scalable.finetune.training import training
from scalable.sweeps.workload import Workload

WORKLOAD = Workload(
    stages=(
        bars, btc_bars, features, overlay, events, labels, split, training, cleaned, search, calibrated, trades, row,
    ),
    unit="search",
    defaults=DEFAULTS,
    check=check,
    matrix=("training", lambda made: (len(made.train), len(made.names))),
)  # fmt: skip
