"""The batch job that a worker runs in: when notice of its end came early, how long its work may go on.

Slurm may send its notice up to a minute early. A job that is still running then, and whose end is known, uses that
minute; one that is being cancelled or preempted is not running any more by Slurm's books, and has the usual grace.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress

from scalable.walltime import CLOSING_S, EARLY_S

ANSWER_WITHIN_S = 5.0  # of the time in which running tasks go on anyway
EPOCH = {"SLURM_TIME_FORMAT": "%s"}  # lets Slurm write times as seconds since the epoch


async def time_for_work(grace: float) -> float:
    """Return for how many seconds running tasks may go on after notice: to the end of the batch job if that is near."""
    left = await left_s()
    usual = grace + CLOSING_S
    return left - CLOSING_S if left is not None and usual <= left <= usual + EARLY_S else grace


async def left_s() -> float | None:
    """Return the seconds until the batch job ends by its walltime; nothing if it ends otherwise, or nobody knows."""
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        return None
    command = ["squeue", "--noheader", f"--jobs={job}", "--format=%T|%e"]
    try:
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, **EPOCH}, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:  # it is not installed in the worker's image
        return None
    try:
        out, _ = await asyncio.wait_for(process.communicate(), ANSWER_WITHIN_S)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        return None
    state, _, end = out.decode(errors="replace").strip().partition("|")
    return float(end) - time.time() if state == "RUNNING" and end.isdecimal() else None
