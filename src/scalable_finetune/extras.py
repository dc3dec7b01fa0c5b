"""Libraries of the trading workload, imported where they are first needed: they take seconds and are an extra."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from scalable.workloads import MissingExtraError, install_hint


def needed(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise MissingExtraError(
            f"the trading workload needs {error.name}, which is not installed; {install_hint('finetune')}"
        ) from error
