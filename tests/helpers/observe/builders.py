"""Journals told in few words: each function makes one record, at a number of seconds after the run's start."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scalable.observe import Journal, RunFolder, RunView

START = 1_776_248_100.0  # 2026-04-15 10:15:00 UTC
GIB = 1024**3

Record = dict[str, Any]


def record(kind: str, at: float = 0.0, **fields: Any) -> Record:
    return {"t": START + at, "kind": kind, **fields}


def run_started(run_id: str = "run-1", *, pid: int | None = None, at: float = 0.0, **fields: Any) -> Record:
    where = {"pid": pid or os.getpid(), "host": socket.gethostname()}
    facts = {"run_id": run_id, "project": "lab", "target": "hpc", "provider": "slurm", **where, **fields}
    return record("run-started", at, **facts)


def ended(at: float = 100.0, status: str = "ok", reason: str = "") -> Record:
    return record("ended", at, status=status, reason=reason)


def started(worker: str, at: float = 1.0, tag: str = "demeter") -> Record:
    return record("worker-started", at, worker=worker, tag=tag)


def joined(worker: str, at: float = 5.0, tag: str = "demeter", *, slots: int = 1, took_s: float = 4.0) -> Record:
    return record("worker-joined", at, worker=worker, tag=tag, slots=slots, took_s=took_s)


def removed(worker: str, at: float = 60.0, tag: str = "demeter", reason: str = "idle") -> Record:
    return record("worker-removed", at, worker=worker, tag=tag, reason=reason)


def closed(worker: str, at: float = 99.0, tag: str = "demeter") -> Record:
    return removed(worker, at, tag, "session closed")


def lost(worker: str, at: float = 50.0, tag: str = "demeter", cause: str = "worker lost", detail: str = "") -> Record:
    return record("worker-lost", at, worker=worker, tag=tag, cause=cause, detail=detail)


def task(
    key: str,
    start: float = 10.0,
    seconds: float = 2.0,
    tag: str | None = "demeter",
    *,
    ok: bool = True,
    worker: str = "w1",
) -> Record:
    stop = start + seconds
    times = {"start": START + start, "stop": START + stop, "status": "finished" if ok else "failed"}
    error = {} if ok else {"error": f"ValueError: {key} is bad"}
    return record("task", stop, key=key, name=key.split("-")[0], tag=tag, worker=worker, **times, **error)


def peaks(tag: str = "demeter", at: float = 20.0, **by_task: int) -> Record:
    return record("peaks", at, worker="w1", tag=tag, peaks=by_task)


def attempt(run: str, number: int = 1, at: float = 10.0, tag: str = "demeter", worker: str = "w1") -> Record:
    return record("attempt-started", at, run=run, attempt=number, worker=worker, tag=tag)


def attempt_ended(
    run: str,
    outcome: str = "finished",
    number: int = 1,
    at: float = 20.0,
    tag: str = "demeter",
    worker: str = "w1",
    **fields: Any,
) -> Record:
    return record("attempt-ended", at, run=run, attempt=number, worker=worker, tag=tag, outcome=outcome, **fields)


def sweep_started(sweep: str = "calibration", at: float = 8.0, **fields: Any) -> Record:
    usual = {"factor": sweep, "tag": "demeter", "expected": 225, "there": 0, "units": 25, "trials": 30, "run": ""}
    return record("sweep-started", at, sweep=sweep, **{**usual, **fields})


def unit(
    run: str, seconds: float = 4.0, sweep: str = "calibration", *, at: float = 30.0, cpu_s: float | None = None,
    number: int = 1, fresh: bool = True, failed: int = 0, peak: int | None = None, rows: int = 9,
    **facts: Any,
) -> list[Record]:  # fmt: skip
    """A unit of a sweep that finished, and its rows."""
    used = seconds if cpu_s is None else cpu_s
    return [
        attempt_ended(run, number=number, at=at, seconds=seconds, cpu_s=used, peak=peak, **facts),
        record("rows", at + 0.1, sweep=sweep, run=run, count=rows, failed=failed, fresh=fresh),
    ]


def a_plan(**fields: Any) -> Record:
    return record("plan", 0.1, **fields)


def summed(*records: Record) -> RunView:
    return RunView.of(records)


def a_run(base: Path, *records: Record, end: bool = True, pid: int | None = None, **facts: Any) -> RunFolder:
    """A run folder whose journal says this, written as a session writes it."""
    folder = RunFolder.create("lab", base)
    first = run_started(folder.run_id, pid=pid, **facts)
    write(folder, [first, *records, *([ended()] if end else [])])
    folder.write_run({name: value for name, value in first.items() if name != "kind"})
    return folder


def a_live_run(base: Path, *records: Record, **facts: Any) -> RunFolder:
    """A run that began just now in this process and has not ended."""
    return a_run(base, *records, end=False, at=time.time() - START, **facts)


def fall_silent(folder: RunFolder, seconds: float) -> None:
    """Let a run have given its last sign so long ago."""
    last = time.time() - seconds
    folder.live_file.write_text(json.dumps({"t": last}), encoding="utf-8")
    for path in (folder.live_file, folder.journal, folder.run_file):
        os.utime(path, (last, last))


def write(folder: RunFolder, records: Iterable[Record]) -> None:
    with Journal(folder.journal) as journal:
        for each in records:
            journal.write(each["kind"], **{name: value for name, value in each.items() if name != "kind"})
