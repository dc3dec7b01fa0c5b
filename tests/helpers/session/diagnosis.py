"""What a session says by itself while it runs, and what it says only once."""

from __future__ import annotations

from typing import Any

from scalable import ScalableSession
from scalable.observe.journal import read


def findings(session: ScalableSession, code: str) -> list[dict[str, Any]]:
    """What its journal tells of one finding: that it is there, and that it is over."""
    assert session.run is not None
    return [one for one in read(session.run.journal) if one.get("code") == code]
