"""What can be known before a run: manifest, packages, disks, machine, code, the target's own word. Starts nothing."""

from __future__ import annotations

from scalable.doctor.checks import Check, Status
from scalable.doctor.examination import examine

__all__ = ["Check", "Status", "examine"]
