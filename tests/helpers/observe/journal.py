"""The journal under good and bad luck: threads, kills, forks, full disks, and things that are no JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scalable.observe import read


def written(path: Path) -> list[dict[str, Any]]:
    return list(read(path))
