"""Measures the memory peak of every task on the worker itself and reports the peaks in batches.

The kernel keeps a process's highest resident size; it is reset when a worker with nothing to do starts a task and read
when the task ends, so the figure is exact for workers that take one task at a time and shared by tasks that overlap.
Costs about 30 µs a task; what a worker measured in its last second is lost if it is killed. With every heartbeat goes
what the worker and its machine use, see ``scalable.worker.measures``.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed.diagnostics.plugin import WorkerPlugin
from tornado.ioloop import PeriodicCallback

from scalable.worker.current_tasks import Note
from scalable.worker.measures import NAME, Measures

if TYPE_CHECKING:
    from distributed import Worker

TOPIC = "scalable"
"""Under which workers report to the driver."""
UNREADABLE = "unreadable"
"""What a worker reports before it dies of a task that it cannot read."""
REPORT_EVERY_MS = 1000
RESET_PEAK = "5"  # what /proc/self/clear_refs takes to reset the highest resident size, see proc(5)


class Meter(WorkerPlugin):
    name = "scalable-meter"

    def __init__(self, note: Path | None = None) -> None:
        self.note = Note(note) if note is not None else None

    def setup(self, worker: Worker) -> None:
        self.worker = worker
        self.running: set[Any] = set()
        self.peaks: dict[str, int] = {}
        self.measures = Measures()
        worker.metrics[NAME] = lambda worker: self.measures.told()
        self.callback = PeriodicCallback(self.report, REPORT_EVERY_MS)
        self.callback.start()

    def transition(self, key: Any, start: str, finish: str, **kwargs: Any) -> None:
        if finish == "executing":
            if not self.running:
                reset_peak()
            self.running.add(key)
        elif key in self.running:
            self.running.discard(key)
            self.peaks[str(key)] = peak()
        else:
            return
        if self.note is not None:
            self.note.write(map(str, self.running))

    def report(self) -> None:
        if self.peaks:
            peaks, self.peaks = self.peaks, {}
            self.worker.log_event(TOPIC, {"kind": "peaks", "peaks": peaks})

    def teardown(self, worker: Worker) -> None:
        self.callback.stop()
        self.report()


def reset_peak() -> None:
    with suppress(OSError):  # not permitted in some sandboxes; then peaks are those of the whole life
        Path("/proc/self/clear_refs").write_text(RESET_PEAK)


def peak() -> int:
    """The highest resident size in bytes since the last reset."""
    try:
        status = Path("/proc/self/status").read_bytes()
    except OSError:
        return 0
    at = status.find(b"VmHWM:")
    return int(status[at + 6 : status.index(b"k", at)]) * 1024 if at >= 0 else 0
