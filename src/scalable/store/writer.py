"""One thread that writes for all: what arrives while it is busy is written together, for one fsync instead of many."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple

from scalable.store.entries import Entry
from scalable.store.errors import StoreError
from scalable.store.interface import Fate, Receipt
from scalable.store.pipeline import GROUP, Pipeline, Written


class Job(NamedTuple):
    entries: Sequence[Entry]
    receipt: Future[Receipt]


class Writer:
    """Starts its thread with the first job. While rows wait in the outbox the database is asked again now and then."""

    def __init__(self, pipeline: Pipeline, ask_again_s: float) -> None:
        self.pipeline = pipeline
        self.ask_again_s = ask_again_s
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None

    def submit(self, entries: Sequence[Entry]) -> Future[Receipt]:
        job = Job(entries, Future())
        job.receipt.set_running_or_notify_cancel()  # a caller that gives up waiting must not undo the writing
        with self._changed:
            if self._closing:
                raise StoreError("the store is closed; open it again to write to it")
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="scalable-store", daemon=True)
                self._thread.start()
            self._changed.notify()
        return job.receipt

    def close(self) -> None:
        """Return when everything submitted is written."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def is_current_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        while (jobs := self._next()) is not None:
            try:
                written = self.pipeline.write([entry for job in jobs for entry in job.entries])
            except BaseException as error:  # noqa: BLE001  whoever waits must hear of it, and others may go on
                for job in jobs:
                    job.receipt.set_exception(error)
                continue
            for job in jobs:
                job.receipt.set_result(receipt(job, written))

    def _next(self) -> list[Job] | None:
        """The jobs of one group; none when it is time to ask the database again; None at the end."""
        with self._changed:
            patience = self.ask_again_s if self.pipeline.waiting else None
            self._changed.wait_for(lambda: self._jobs or self._closing, patience)
            if self._closing and not self._jobs:
                return None
            jobs: list[Job] = []
            size = 0
            while self._jobs and (not jobs or size + len(self._jobs[0].entries) <= GROUP):
                jobs.append(self._jobs.popleft())
                size += len(jobs[-1].entries)
            return jobs


def receipt(job: Job, written: Written) -> Receipt:
    """What became of the entries of one job, of those of a group."""
    dead = [reason for entry in job.entries if (reason := written.dead.get(entry.identity))] if written.dead else []
    if dead and written.fate is Fate.COMMITTED:
        return Receipt(Fate.SET_ASIDE, len(job.entries), dead[0], len(dead))
    return Receipt(written.fate, len(job.entries), written.reason, len(dead))
