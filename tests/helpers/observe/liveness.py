"""Whether a run still runs, told from its journal and its process."""

from __future__ import annotations

import time

from tests.helpers.observe.builders import START, Record, run_started


def now_started(pid: int | None = None) -> Record:
    return run_started(pid=pid, at=time.time() - START)
