"""A session's answers in words for people, the same on a terminal and on the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scalable.wording import plural


def paused(answer: Mapping[str, Any], *, now: bool) -> list[str]:
    """What becomes of runs and workers, a phrase each."""
    stopped, running, waiting = len(answer["stopped"]), len(answer["running"]), answer["waiting"]
    told = [f"{plural(stopped, 'run')} stopped, to be run again at no retry's cost"] if stopped else []
    told += [f"{plural(running, 'run')} may end"] if running else []
    told += [f"{waiting} more {'waits' if waiting == 1 else 'wait'}"] if waiting else []
    return told + (["workers go"] if now else [])


def not_paused(answer: Mapping[str, Any]) -> str:
    """What a pause does not reach; empty if it reaches everything."""
    outside = answer["outside"]
    return f"{plural(outside, 'task')} handed to Dask directly cannot be paused and go on" if outside else ""


def killed(answer: Mapping[str, Any]) -> str:
    return f"killed {answer['killed']}: {answer['follows']}"
