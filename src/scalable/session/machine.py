"""What commands and sessions must ask of this machine before they can plan: its size, its past runs, its packages."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from scalable.errors import PlanningError
from scalable.quantities import Cpu, Memory

if TYPE_CHECKING:
    from scalable.planning.history import History
    from scalable.planning.site import Machine


def this_machine() -> Machine:
    from scalable.cluster.base import usable_cpus
    from scalable.planning.site import Machine

    return Machine(Cpu.of(usable_cpus()), Memory(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))


def history(env: Mapping[str, str] = os.environ) -> History:
    """What earlier runs in this folder measured, if there are any."""
    from scalable.planning.history import History

    path = Path(env.get("SCALABLE_RUNS_DIR") or ".scalable/runs") / "history.json"
    if not path.exists():
        return History()
    try:
        return History.from_dict(json.loads(path.read_text(encoding="utf-8")), month=f"{datetime.now(UTC):%Y-%m}")
    except (ValueError, OSError, RecursionError) as error:
        raise PlanningError(f"{path}: {error}") from None
