"""Checks before a run: manifest, packages, disks, machine, code, the target's own word. Starts nothing."""

from __future__ import annotations

from scalable.doctor.examination import examine

__all__ = ["examine"]
