"""Why workers do not connect, why tasks wait, why workers idle: found while a cluster runs, and said in plain words."""

from __future__ import annotations

from scalable.cluster.diagnosis.diagnose import diagnose
from scalable.cluster.diagnosis.snapshot import LIMITS, Awaited, Bounds, Kind, Limits, Refusal, Snapshot

__all__ = ["LIMITS", "Awaited", "Bounds", "Kind", "Limits", "Refusal", "Snapshot", "diagnose"]
