"""The diagnosis of a running cluster: why workers do not connect, why tasks wait, why workers idle, in plain words."""

from __future__ import annotations

from scalable.cluster.diagnosis.diagnose import diagnose
from scalable.cluster.diagnosis.snapshot import LIMITS, Awaited, Bounds, Kind, Limits, Refusal, Snapshot

__all__ = ["LIMITS", "Awaited", "Bounds", "Kind", "Limits", "Refusal", "Snapshot", "diagnose"]
