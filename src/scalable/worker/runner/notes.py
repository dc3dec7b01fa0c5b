"""Notes: what code of a run tells the driver while it runs, once, as an event of the session's journal."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("scalable")


def unheard(facts: dict[str, Any]) -> None:
    """Log a note: outside a runner nobody listens."""
    logger.info("%s", json.dumps(facts))


_tell: Callable[[dict[str, Any]], object] = unheard


def note(event: str, **facts: Any) -> None:
    """Have an event written to the journal, with the run, its worker and these facts."""
    _tell({"event": event, **facts})


def use(tell: Callable[[dict[str, Any]], object]) -> None:
    """Set what carries notes to the supervisor, in a runner."""
    global _tell
    _tell = tell
