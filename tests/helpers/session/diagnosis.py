"""What a session says by itself while it runs, on real processes; and what it says only once."""

from __future__ import annotations

from scalable import ScalableSession
from scalable.observe.reading import read


def told(session: ScalableSession, code: str) -> list[str]:
    assert session.run is not None
    return [one["kind"] for one in read(session.run.journal) if one.get("code") == code]
