"""Measures the memory peak of every task on the worker itself, and notes in a file which tasks it is doing.

Peaks are reported in batches. A plain task's peak is that of the worker's process and of what the task has started. The
kernel keeps a process's highest resident size; it is reset when a worker with nothing to do starts a task and read when
the task ends. Children are looked at ten times a second, and those that come and go in between are seen by what the
kernel keeps of ended ones. Runner processes and what looks after the worker are no part of it. So the figure is exact
with one slot, and shared by tasks that overlap. A guarded task has the peak that its supervisor measured.

Costs about 30 µs a task, and while a task has children about a millisecond a second for each; what a worker measured in
its last second is lost if it is killed. With every heartbeat goes what the worker and its machine use, see
``scalable.worker.measures``.

The note can be read even after the worker was killed. It is kept in shared memory, so that noting the start of a task
costs a microsecond or two and no system call.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed.diagnostics.plugin import WorkerPlugin
from tornado.ioloop import PeriodicCallback

from scalable import proc
from scalable.worker import printing
from scalable.worker.measures import NAME, WorkerMeasures
from scalable.worker.runner.memory import ReapedChildren, TreePeak
from scalable.worker.runners import METER
from scalable.worker.runners import NAME as RUNNERS

if TYPE_CHECKING:
    from distributed import Worker

TOPIC = "scalable"
"""Under which workers report to the driver."""
UNREADABLE = "unreadable"
"""What a worker reports before it dies of a task that it cannot read."""
REPORT_EVERY_MS = 1000
LOOK_EVERY_MS = 100  # at what tasks have started
SIZE = 64 * 1024  # room for the keys of hundreds of tasks at once; what does not fit is left out
LENGTH = 4  # bytes in front that say how long the text is
BETWEEN = "\0"


class Meter(WorkerPlugin):
    name = METER

    def __init__(self, note: Path | None = None) -> None:
        self.note = TaskNote(note) if note is not None else None

    def setup(self, worker: Worker) -> None:
        self.worker = worker
        self.running: dict[Any, TreePeak] = {}
        """By key: what the processes of the worker were seen to use together since the task began."""
        self.measured: dict[Any, int] = {}
        """By key: the peak that a supervisor measured of a guarded task."""
        self.peaks: dict[str, int] = {}
        self.children = ReapedChildren()
        self.ended_runners = 0
        self.measures = WorkerMeasures()
        worker.metrics[NAME] = lambda worker: self.measures.reading()
        self.callback = PeriodicCallback(self.report, REPORT_EVERY_MS)
        self.callback.start()
        self.looking = PeriodicCallback(self.look, LOOK_EVERY_MS)

    def transition(self, key: Any, start: str, finish: str, **kwargs: Any) -> None:
        if finish == "executing":
            if not self.running:
                self.begin()
            self.running[key] = TreePeak()
        elif key in self.running:
            self.peaks[str(key)] = self.peak_of(key, self.running.pop(key))
            if not self.running:
                self.looking.stop()
        else:
            return
        if self.note is not None:
            self.note.write(map(str, self.running))

    def begin(self) -> None:
        """Start to measure: nothing was running."""
        proc.reset_peak()  # where that is not permitted, peaks are those of the whole life
        self.children, self.ended_runners = ReapedChildren(), self.runners_ended
        self.looking.start()

    def look(self) -> None:
        """Look at what tasks have started, if anything."""
        others = self.others()
        started = [pid for child in proc.children(os.getpid()) if child not in others for pid in proc.tree(child)]
        if started:
            pids = [os.getpid(), *started]
            resident = sum(map(proc.resident, pids))
            for seen in self.running.values():
                seen.note(resident, pids)

    def peak_of(self, key: Any, seen: TreePeak) -> int:
        if (measured := self.measured.pop(key, None)) is not None:
            return measured
        own = proc.peak_since_reset() or 0
        child = self.children.grown(own)
        if self.ended_runners != self.runners_ended:  # it may have been one of those
            child = 0
        return max(own, seen.highest, child + proc.resident(os.getpid()) if child else 0)

    def others(self) -> set[int | None]:
        """Return children of the worker that are no task's: runners, and who looks after the worker."""
        runners: Any = self.worker.plugins.get(RUNNERS)
        if runners is None:
            return {printing.own_writer()}
        supervisor = runners.supervisor
        reaper = runners.reaper.process
        runners_own = {runner.pid for runner in (*supervisor.runners, *supervisor.dropped)}
        return {*runners_own, reaper.pid if reaper is not None else None, printing.own_writer()}

    @property
    def runners_ended(self) -> int:
        runners: Any = self.worker.plugins.get(RUNNERS)
        return runners.supervisor.ended_runners if runners is not None else 0

    def report(self) -> None:
        if self.peaks:
            peaks, self.peaks = self.peaks, {}
            self.worker.log_event(TOPIC, {"kind": "peaks", "peaks": peaks})

    def teardown(self, worker: Worker) -> None:
        self.callback.stop()
        self.looking.stop()
        self.report()


class TaskNote:
    """The worker's side."""

    def __init__(self, path: Path) -> None:
        with path.open("wb+") as file:
            file.truncate(SIZE)
            self.memory = mmap.mmap(file.fileno(), SIZE)

    def write(self, keys: Iterable[str]) -> None:
        text = BETWEEN.join(keys).encode(errors="replace")[: SIZE - LENGTH]
        self.memory[: LENGTH + len(text)] = len(text).to_bytes(LENGTH, "little") + text


def noted_tasks(path: Path) -> set[str] | None:
    """Return the keys of tasks that were being done; None if the worker never noted any."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    text = content[LENGTH : LENGTH + int.from_bytes(content[:LENGTH], "little")].decode(errors="replace")
    return set(text.split(BETWEEN)) if text else set()
