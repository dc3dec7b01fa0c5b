"""Runs whose worker is killed, that hang, or that only look as if they did."""

from __future__ import annotations

from typing import Any


def tasks_of(code: str, *names: str, **arguments: Any) -> dict[str, Any]:
    return {name: {"component": "demeter", "run": f"{code}:{name}", "arguments": arguments} for name in names}
