"""The vocabulary of the journal: every kind of record, what it says and what its fields are.

The reference page of events is made of it. Readers pass over kinds and fields they do not know, so a journal of another
version can still be read; what this version writes is all here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecordKind:
    says: str
    fields: Mapping[str, str]
    """By name; every record has ``t``, seconds since 1970, and ``kind`` besides."""
    more: bool = False
    """Whether code of users adds fields of its own."""


WORKER = {"worker": "its name, which starts with its tag", "tag": "its kind: a component or profile"}
RUN = {
    "run": "name of the job: a task of the manifest, or the rows of a sweep that are computed together",
    "attempt": "1 for the first",
    "worker": "where it runs",
    "tag": "kind of that worker",
}

KINDS: Mapping[str, RecordKind] = {
    "run-started": RecordKind(
        "a session began; the first record",
        {
            "run_id": "name of the run's folder",
            "project": "name in the manifest",
            "manifest": "its path",
            "manifest_digest": "the first 16 hex digits of the SHA-256 of its text",
            "target": "name of the target",
            "provider": "what kind of place that is",
            "pid": "process of the driver",
            "process": "what tells it from a later one of that number, on its machine",
            "host": "machine of the driver",
            "version": "of scalable",
            "python": "version of Python",
            "libraries": "versions of packages that results depend on",
            "command": "command line",
            "cwd": "folder it was started in",
        },
    ),
    "plan": RecordKind(
        "what was planned, to be compared with what happens",
        {
            "workers_by_tag": "how many workers of each kind",
            "resources_by_tag": "how big they are",
            "wall_s": "seconds from the first run's start to the end, if foreseen",
            "ready_s": "seconds until the first run can start",
            "cost": "what will be paid",
            "hours": "core-hours, node-hours and gpu-hours that will be used, if known",
            "node_hours": "paid time of machines",
            "hourly": "price of an hour with all workers",
            "tasks": "how many tasks of each kind",
            "peaks": "memory a task of each kind is expected to use",
            "objective": "what the plan was made for",
            "policy": "how careful it is",
            "sweep": "the only sweep it is for; empty for all that is planned together",
            "sizes": "how big the manifest says workers of each kind are, for a rollback",
            "pinned": "the run whose plan this is again after a rollback",
        },
    ),
    "ended": RecordKind(
        "the session ended; the last record. One that was killed has none",
        {"status": "`ok`, `failed` or `interrupted`", "reason": "why, unless it is ok"},
    ),
    "gauge": RecordKind(
        "how many workers and tasks there are, every few seconds while that changes",
        {
            "workers": "by tag: `live`, `busy`, `requested`",
            "tasks": "by tag: `waiting`, `running`, `done`, `failed`",
            "cost": "paid so far, if anything is charged",
        },
    ),
    "scale": RecordKind(
        "a decision to have more or fewer workers",
        {
            "direction": "`up` or `down`",
            "tag": "of which kind",
            "count": "how many are asked for or sent away",
            "reason": "why, in words",
        },
    ),
    "worker-started": RecordKind("a worker was asked for", {**WORKER, "job": "its process, batch job, pod or machine"}),
    "worker-pending": RecordKind("why a worker is not there yet", {**WORKER, "reason": "in the words of its backend"}),
    "worker-joined": RecordKind(
        "a worker reached the scheduler",
        {
            **WORKER,
            "address": "where it listens",
            "host": "machine",
            "pid": "process, if known",
            "slots": "runs it takes at once",
            "took_s": "seconds since it was asked for",
            "allocation": "the batch job that it shares with other workers, if it does",
        },
    ),
    "worker-leaving": RecordKind("a worker has notice and takes no more work", {**WORKER, "reason": "of the notice"}),
    "worker-removed": RecordKind("a worker is gone because we wanted it", {**WORKER, "reason": "why"}),
    "worker-lost": RecordKind(
        "a worker is gone and nobody here wanted it",
        {
            **WORKER,
            "cause": "`out of memory`, `node lost`, `preempted` …",
            "detail": "what is known of it",
            "peak": "bytes it used at most, if known",
        },
    ),
    "workers-refused": RecordKind(
        "workers that were asked for will not come",
        {**WORKER, "count": "how many", "reason": "in the words of who refused", "cause": "of the loss, if sure"},
    ),
    "task": RecordKind(
        "a task that was handed to Dask ended",
        {
            "key": "of Dask",
            "name": "of its function",
            "tag": "kind of worker it asks for",
            "worker": "where it ran",
            "start": "when, by the worker's clock",
            "stop": "when, by the worker's clock",
            "status": "`finished` or `failed`",
            "error": "of one that failed",
        },
    ),
    "peaks": RecordKind("memory that tasks used at most", {**WORKER, "peaks": "bytes by key"}),
    "attempt-started": RecordKind("a run began on a worker", RUN),
    "progress": RecordKind(
        "how far a run says to be, at most every few seconds",
        {**RUN, "step": "it has done", "of": "so many", "note": "what it calls it", "memory": "bytes it uses"},
    ),
    "attempt-ended": RecordKind(
        "a run ended on its worker, or was lost",
        {
            **RUN,
            "outcome": "`finished`, or the cause: `raised`, `stuck`, `over its walltime`, `out of memory` …",
            "seconds": "it took",
            "cpu_s": "seconds of CPU it used",
            "load_s": "seconds of it that loading its code took, where that was noticeable",
            "peak": "bytes it used at most",
            "message": "its error, or what is known of its end",
            "raised": "`true` for `out of memory` if its code raised `MemoryError` and nothing was killed",
            "recalled": "`true` if its result was in the cache and nothing was computed",
        },
    ),
    "retry": RecordKind(
        "a run or task is tried again and that is counted",
        {"run": "name of the run", "key": "instead, of a task handed to Dask", "tag": "kind of worker", "cause": "why"},
    ),
    "run-ended": RecordKind(
        "nothing more will be done about a run",
        {"run": "its name", "state": "`finished`, `failed`, `refused` or `stopped`", "reason": "why"},
    ),
    "fan-out": RecordKind(
        "a task over axes begins: one job for each combination of their values, named after it",
        {
            "task": "its name",
            "axes": "by name: the values",
            "number": "how often it was run before in this session; its jobs then end in `#2` and so on",
            "jobs": "how many there are",
        },
    ),
    "note": RecordKind(
        "code of a run told something once",
        {**RUN, "event": "what it calls it, e.g. `label-cleaning`"},
        more=True,
    ),
    "fork": RecordKind(
        "a process with threads forked, or was kept from it",
        {
            **RUN,
            "policy": "`deny` or `warn`",
            "file": "where",
            "line": "where",
            "function": "where",
            "threads": "how many it had",
            "allowed": "whether it was let through",
        },
    ),
    "sweep-started": RecordKind(
        "a sweep was compiled and compared with the store",
        {
            "sweep": "its name",
            "factor": "what it varies",
            "tag": "kind of worker that computes it",
            "expected": "rows it has",
            "there": "rows that are finished already",
            "units": "jobs that are missing",
            "all_units": "jobs it has",
            "stages": "by name: rows that ask for it, and how often it must be computed for all of them",
            "run": "function or workload, empty for the shipped one",
            "settings": "of the sweep",
            "base": "locked values that it reads, without its factor and its settings",
            "reads": "names that its workload reads of a configuration",
            "code": "fingerprint of its workload",
            "data": "fingerprint of the data that its rows read",
            "trials": "trials of each job, where its workload has such a setting; else 0",
            "pilot": "whether it is a pilot, of a few jobs only",
            "axes": "labels of the grid: of `variant`, then of each other axis; nothing if it is too large to draw",
            "over": "names of the repeated axes",
            "average": "names of the averaged axes",
            "cells": "positions in the grid, such as `0-99,120`, of the rows that are meant, if not all are",
            "cells_there": "positions of rows that are finished already",
            "failed_cells": "positions of rows that failed before and are not tried again",
        },
    ),
    "sweep-units": RecordKind(
        "which rows the jobs of a sweep have; several records if they are many",
        {"sweep": "its name", "unit_cells": "positions in the grid by name of the job"},
    ),
    "rows": RecordKind(
        "rows of a job are safe in the store",
        {
            "sweep": "its name",
            "run": "the job",
            "count": "how many rows, without dead letters",
            "tag": "the kind of worker it ran on",
            "failed": "how many of them failed",
            "error": "why the first of them failed",
            "fresh": "whether the stage its rows share was computed for them, not found",
            "aside": "whether the store refused some for good, so that they are dead letters",
            "elsewhere": "the run that computed them, if it was another one of the same sweep",
            "cells": "their positions in the grid",
            "failed_cells": "positions of those that failed",
        },
    ),
    "sweep-ended": RecordKind(
        "what the store has of a sweep in the end",
        {
            "sweep": "its name",
            "status": "`finished` or `failed`",
            "expected": "rows it has",
            "finished": "rows that are good",
            "failed": "rows that failed",
            "missing": "rows that are not there",
            "reason": "why it is not complete",
            "elsewhere": "rows that another run of the same sweep computed meanwhile",
            "executed": "by stage: how often it was computed",
            "seconds": "it took",
            "job_s": "of a pilot: mean seconds of a job in the whole sweep",
        },
    ),
    "finding": RecordKind(
        "something is not as one would wish, and what helps",
        {
            "code": "short name, e.g. `workers-full`",
            "text": "in words",
            "remedy": "what to do",
            "severity": "`note`, `warning` or `error`; `problem` for `error` in earlier versions",
            "about": "tag or thing it is about",
            "worker": "of one that a worker found",
            "tag": "of one that a worker found",
        },
    ),
    "finding-over": RecordKind(
        "a finding is no longer true",
        {"code": "of the finding", "about": "of the finding", "text": "as it was", "lasted_s": "seconds it was true"},
    ),
    "alert": RecordKind(
        "somebody should know this now",
        {
            "alert": "its name, e.g. `WorkerMemory`, `retry-used`, `store-unreachable`, `journal-gap`",
            "text": "in words",
            "run": "it concerns, if it is one",
            "state": "`firing` when it begins and `resolved` when it is over, of one that lasts",
            "severity": "`note`, `warning`, `error` or `page`",
            "remedy": "what to do about it",
            "labels": "what it is about, e.g. the worker",
        },
    ),
    "incident": RecordKind(
        "a violent end or a lost worker, with its evidence in a file of its own; told again when its outcome is known",
        {
            "id": "its number in this run",
            "incident": "`stuck`, `out of memory`, `crashed`, `worker lost` …",
            "run": "it happened to; empty for a worker that had none or several",
            "worker": "it happened on",
            "tag": "kind of that worker",
            "text": "who is to blame, as far as known",
            "severity": "`normal` or `high`",
            "outcome": "what became of the run",
        },
    ),
    "operator": RecordKind(
        "a person did something about the session",
        {"ask": "`kill`, `pause` …", "target": "to whom", "by": "user@host", "runs": "it concerned"},
    ),
    "tariff": RecordKind(
        "how the session is charged",
        {
            "basis": "what is paid by the hour",
            "currency": "empty if nothing is charged",
            "assumed": "what was assumed, in words",
            "budget": "what may be spent, if anything says so",
        },
    ),
    "machine": RecordKind(
        "a machine that is paid appeared or changed",
        {
            "machine": "its name",
            "pool": "it belongs to",
            "price": "of an hour",
            "since": "when it is paid from",
            "up": "when it appeared; its start before that is paid",
            "until": "when it went; empty while it is there",
            "tail_s": "seconds it is paid after its last worker",
        },
    ),
    "placed": RecordKind(
        "a worker is on a machine",
        {**WORKER, "machine": "which", "part": "share of the machine it takes", "slots": "runs it takes at once"},
    ),
    "allocation": RecordKind(
        "how the hours of an allocation are counted",
        {
            "basis": "what is counted: batch jobs as Slurm has them, or workers",
            "budget": "hours that may be used, if anything says so, as `amount` and `unit`",
            "balance": "hours that the account had left by Slurm's accounting, if it says so",
        },
    ),
    "hours": RecordKind(
        "core-hours, node-hours and gpu-hours used so far",
        {"used": "by now, by unit", "held": "cores, nodes and GPUs held at this moment, by the unit of their hours"},
    ),
    "cost": RecordKind(
        "what was paid so far",
        {
            "spent": "by now",
            "exact": "the same amount as text, with all its digits",
            "per_hour": "at this moment",
            "due": "will be paid if all ends now",
        },
    ),
}  # fmt: skip
