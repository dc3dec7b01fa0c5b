"""What a finished run leaves for later plans, also when several end at the same time or the file is not what it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scalable.planning.history import History


def written(base: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((base / "history.json").read_text(encoding="utf-8"))
    return found


def understood(base: Path, month: str | None = None) -> History:
    return History.from_dict(written(base), month=month)
