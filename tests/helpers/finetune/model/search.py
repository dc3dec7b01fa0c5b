"""The search: the same in any process, the same after a stop, better than chance only where there is something."""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256

from scalable_finetune.search import Search
from tests.helpers.finetune.model.builders import a_training, searched

TRIALS = 12  # more than are drawn at random, so that what was learnt matters


def fingerprint(search: Search) -> str:
    """Of every bit of it."""
    told = json.dumps([search.parameters, search.score, search.rounds, [str(each) for each in search.trials]])
    parts = (search.model, search.validation.probability.tobytes(), search.test.probability.tobytes(), told.encode())
    return sha256(b"".join(parts)).hexdigest()


@cache
def undisturbed() -> str:
    return fingerprint(searched(a_training(), trials=TRIALS))
