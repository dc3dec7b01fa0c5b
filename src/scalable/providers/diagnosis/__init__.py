"""Why workers do not connect, why tasks wait, why workers idle: found while a cluster runs, and said in plain words."""

from __future__ import annotations

from scalable.providers.diagnosis.findings import LIMITS, Finding, Limits, Severity
from scalable.providers.diagnosis.judging import diagnose
from scalable.providers.diagnosis.snapshot import Awaited, Bounds, Kind, Refusal, Snapshot

__all__ = ["LIMITS", "Awaited", "Bounds", "Finding", "Kind", "Limits", "Refusal", "Severity", "Snapshot", "diagnose"]
