"""What a journal amounts to: workers, tasks, memory, money, and the plan beside what came."""

from __future__ import annotations

import json
from typing import Any

from scalable.observe import RunState, report_of
from tests.helpers.observe.builders import (
    START,
    Record,
    summed,
)


def report(*records: Record, state: RunState = RunState.OK, now: float = START + 100) -> dict[str, Any]:
    found = report_of(summed(*records), state, now)
    json.dumps(found, allow_nan=False)
    return found
