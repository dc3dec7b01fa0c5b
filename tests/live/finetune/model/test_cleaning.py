"""Label cleaning: finds labels that were turned, touches few, never forks, and says once how it works."""

from __future__ import annotations

import json
import subprocess
import sys

WORKERS, SAMPLES = 8, 2000

BOUND_S = 120  # for a process that imports cleanlab on a busy machine

GUARDED = "from tests.helpers.finetune.model.guarded import clean_under_guard as run; run()"


def test_cleaning_never_forks_where_its_careless_twin_does() -> None:
    """On a machine of 8 CPUs, 2,000 labels: the fork guard has nothing to refuse, until n_jobs=1 is taken away."""
    done = subprocess.run([sys.executable, "-c", GUARDED], capture_output=True, text=True, timeout=BOUND_S)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["ours"] < SAMPLES
    assert told["removed"], "the line that asks for one process was not found"
    assert "cleanlab" in told["careless"]
