"""What a cached result costs: a hit beside reading the same value from a plain pickle file, medians of many."""

from __future__ import annotations

import pickle
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scalable.store.caching import ValueType, cacheable

ROUNDS = 2000
VALUE = {"sharpe": 1.25, "trades": 42, "asset": "AAVEUSDC"}


def measure() -> dict[str, Any]:
    with TemporaryDirectory() as folder:

        @cacheable(cache_dir=folder)
        def cached(asset: ValueType, fold: ValueType, cost: ValueType = 10.0) -> dict[str, Any]:
            return VALUE

        plain = Path(folder) / "plain.pickle"
        plain.write_bytes(pickle.dumps(VALUE))
        cached("AAVEUSDC", 3)
        hit, raw = interleaved(lambda: cached("AAVEUSDC", 3), lambda: pickle.loads(plain.read_bytes()))
        assert cached.cache_info().misses == 1
    return {"hit_us": hit, "goal_us": 100.0, "raw_pickle_load_us": raw, "ratio_to_raw": hit / raw}


def interleaved(*actions: Callable[[], object]) -> list[float]:
    """Median microseconds of each; they take turns, so that whatever else the machine does meets them alike."""
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(ROUNDS):
        for action, taken in zip(actions, times, strict=True):
            begin = time.perf_counter()
            action()
            taken.append(1e6 * (time.perf_counter() - begin))
    return [statistics.median(taken) for taken in times]
