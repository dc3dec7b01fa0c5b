"""Flame graphs of real processes, and the words for those of which there is none."""

from __future__ import annotations

import asyncio

from scalable.worker.runner.stacks import flame_graph
from tests.helpers.runner.programs import PATIENCE_S


def graph(pid: int, seconds: float = 1) -> str:
    return asyncio.run(asyncio.wait_for(flame_graph(pid, seconds), PATIENCE_S)).decode()
