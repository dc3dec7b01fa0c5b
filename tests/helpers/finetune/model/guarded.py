"""Label cleaning under the fork guard, in a process of its own."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from scalable.worker.runner import guard
from scalable_finetune import cleaning
from scalable_finetune.cleaning import cleaned
from tests.helpers.finetune.model.builders import a_training

EVENTS = 500
WORKERS, SAMPLES = 8, 2000


def clean_under_guard() -> None:
    """Runs in a process of its own, which has a thread beside it that a fork would leave behind."""
    import threading

    library = import_module("cleanlab.filter")
    library.psutil.cpu_count = lambda logical=True: WORKERS  # what it takes where nothing is said
    guard.install("deny")
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    training = a_training(events=SAMPLES, signal=1.0, tests=10)
    ours = len(cleaned(training, cleanlab="prune", seed=0).train)
    target, probabilities = training.train.target, np.full((SAMPLES, 2), 0.5)
    source = Path(cleaning.__file__).read_text()
    careless_source = source.replace(", n_jobs=1)", ")")
    careless: dict[str, Any] = {"__name__": "careless"}
    exec(compile(careless_source, "careless.py", "exec"), careless)
    try:
        careless["ranked_issues"](target, probabilities)
        said = "not denied"
    except guard.ForkDenied as error:
        said = str(error)
    print(json.dumps({"ours": ours, "removed": careless_source != source, "careless": said}))
