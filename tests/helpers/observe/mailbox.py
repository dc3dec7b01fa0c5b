"""Questions to a session in another process: answered once, in time, and never waited for in vain."""

from __future__ import annotations

PATIENCE_S = 60.0  # an upper bound against hanging, not a measure
