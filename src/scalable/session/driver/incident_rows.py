"""Keeps incidents of some jobs in a store, where they are seen without the folder of their run."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from scalable.observe.fields import listed
from scalable.store import IncidentRow, Store

if TYPE_CHECKING:
    from scalable.observe.incidents import Incident
    from scalable.session.driver.incidents import Incidents

logger = logging.getLogger("scalable")

IN_COLUMNS = ("id", "kind", "run", "worker", "started")  # of the store's table


class IncidentRows:
    """Writes incidents in the background while it is entered; nothing is left to write when it is left."""

    def __init__(
        self, incidents: Incidents, store: Store, ours: Callable[[str], bool], sweep: str | None = None
    ) -> None:
        self.incidents = incidents
        self.store = store
        self.ours = ours
        """Says of a job whether its incidents are kept. There may be others' work in the same session."""
        self.sweep = sweep
        self.lock = asyncio.Lock()
        """What became of an incident arrives after the incident."""
        self.writing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> None:
        self.incidents.listeners.append(self.keep)

    async def __aexit__(self, *error: object) -> None:
        self.incidents.listeners.remove(self.keep)
        while self.writing:
            with suppress(asyncio.CancelledError):
                await asyncio.wait(set(self.writing))

    def keep(self, known: Incident) -> None:
        jobs = [str(job) for job in listed(known.evidence.get("jobs"))] or [known.run]
        ours = any(map(self.ours, jobs))
        if not ours and any(jobs):
            return
        run = self.incidents.run
        summary = {name: value for name, value in known.summary().items() if name not in IN_COLUMNS}
        row = IncidentRow(
            id=f"{run.run_id}/{known.id}", kind=known.kind, sweep=self.sweep if ours else None,
            started=known.started or known.found or time.time(), run=known.run or None, worker=known.worker or None,
            summary={**summary, "folder": f"{socket.gethostname()}:{run.path}"},
        )  # fmt: skip
        task = asyncio.ensure_future(self.put(row))
        self.writing.add(task)
        task.add_done_callback(self.writing.discard)

    async def put(self, row: IncidentRow) -> None:
        async with self.lock:
            receipt = await asyncio.to_thread(self.store.put_incident, row)
        if not receipt.safe:
            logger.warning("incident %s is not in the store: %s", row.id, receipt.reason)
