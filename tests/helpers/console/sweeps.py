"""What the page shows follows from the journal alone, record by record, however large the run is."""

from __future__ import annotations

from typing import Any

from tests.helpers.observe.builders import (
    Record,
    record,
    run_started,
    sweep_started,
)

AXES = {"variant": ["off", "on"], "asset": ["A", "B"], "fold": ["0"], "cost_bps": ["1", "2"]}


def a_sweep(**fields: Any) -> list[Record]:
    """Two units of four rows: one for each asset."""
    units = {"A fold 0": "0-1,4-5", "B fold 0": "2-3,6-7"}
    return [
        run_started(),
        sweep_started("trial", expected=8, units=2, **{"axes": AXES, "cells_there": "", "failed_cells": "", **fields}),
        record("sweep-units", 8, sweep="trial", unit_cells=units),
    ]


def rows(run: str, cells: str, failed: str = "", at: float = 20.0, count: int = 4, **fields: Any) -> Record:
    told = {"sweep": "trial", "run": run, "count": count, "cells": cells, "failed_cells": failed}
    return record("rows", at, **told, failed=1 if failed else 0, fresh=True, **fields)
