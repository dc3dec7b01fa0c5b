"""The search: the same in any process, the same after a stop, better than chance only where there is something."""

from __future__ import annotations

import numpy as np

from scalable_finetune.search import Search


def edge(found: Search) -> float:
    """How much more probable the model holds the events that were right to buy; 0 for one that knows nothing."""
    ranks = np.argsort(np.argsort(found.test.probability)) / (len(found.test.probability) - 1)
    return float(ranks[found.test.bought].mean() - ranks[~found.test.bought].mean())
