"""How many runs that do nothing are carried out and stored a second, by this system and by others, in turns.

Two worker processes; every result is committed by itself to an SQLite file (WAL, synchronous=FULL) by the process that
asked for the runs, in its main thread. Others are measured with one task for each run, and with runs put together in
tasks by hand, as many as this system puts together by itself; how to do that, and to lose only one run when a task
dies, is then the user's work. Each system runs in a process of its own, and the rounds alternate between them.
``python -m benchmarks.runs NAME RUNS`` measures one once.
"""

from __future__ import annotations

import json
import os
import queue
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from secrets import token_hex
from typing import Any

from benchmarks.peers import PEERS, WORKERS, Start, nothing, nothings
from benchmarks.sessions import opened, submit
from scalable import proc

RUNS = 5000
ROUNDS = 3
BATCH = 64  # runs in one task where others batch by hand
WARM_UP = 256  # runs before the clock starts: processes are there, modules are imported
TURN_S = 300.0  # a system that takes longer than that for one turn has hung
OURS = "scalable"
ONE, BATCHED = "run by run", "batched by hand"
MARK = "SCALABLE_BENCHMARK"  # in the environment of a turn's processes


def measure() -> dict[str, Any]:
    seen: dict[str, dict[str, list[float]]] = {}
    missing: dict[str, str] = {}
    for _ in range(ROUNDS):
        for name in (OURS, *PEERS):
            if name in missing:
                continue
            turn = measured_apart(name)
            if "missing" in turn:
                missing[name] = f"not measured: {turn['missing']} is not installed"
                print(f"{name}: {missing[name]}; pip install -e '.[bench]'", file=sys.stderr)
                continue
            for what, rate in turn.items():
                seen.setdefault(name, {}).setdefault(what, []).append(rate)
    middle = {name: {what: statistics.median(all_) for what, all_ in turns.items()} for name, turns in seen.items()}
    rates = {"ratio of runs a second": compared(middle, ONE, BATCHED)}
    # what others do on the machine moves this one less
    rates["ratio of CPU time a run"] = compared(middle, f"{ONE}, CPU µs", f"{BATCHED}, CPU µs")
    return {"runs": RUNS, "workers": WORKERS, "rounds": ROUNDS, "batch": BATCH, **middle, **missing, **rates}


def compared(middle: dict[str, dict[str, float]], *ways: str) -> dict[str, float]:
    """Ours to each way of the others."""
    ours = middle[OURS][ways[0]]
    return {f"to {name}, {way}": ours / middle[name][way] for name in middle if name != OURS for way in ways}


def measured_apart(name: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.runs", name, str(RUNS)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # Parsl starts programs of its own from it
    code = os.pathsep.join(filter(None, [str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PATH": path, "PYTHONPATH": code, MARK: token_hex(8)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TURN_S, check=True, env=env)
    turn: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return turn


def one_turn(name: str, runs: int) -> dict[str, Any]:
    """Runs a second, result by result in the database; in batches too where that is not done by the system itself."""
    try:
        with tempfile.TemporaryDirectory() as folder, (ours if name == OURS else PEERS[name])() as start:
            found = {}
            for way, batch in ((ONE, 1),) if name == OURS else ((ONE, 1), (BATCHED, BATCH)):
                found[way], found[f"{way}, CPU µs"] = stored(start, runs, Path(folder), batch)
            return found
    except ModuleNotFoundError as error:
        if name == OURS:
            raise
        return {"missing": error.name}


def stored(start: Start, runs: int, folder: Path, batch: int) -> tuple[float, float]:
    """Carry out, commit each result by itself; runs a second, and the CPU time of all processes for each."""
    assert sum(1 for _ in together(start, range(WARM_UP), batch)) == WARM_UP
    database = sqlite3.connect(folder / f"{batch}.db")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE results (run INTEGER PRIMARY KEY, value INTEGER)")
    used, began = cpu_s(), time.perf_counter()
    for value in together(start, range(runs), batch):
        database.execute("INSERT INTO results VALUES (?, ?)", (value, value))
        database.commit()
    took, used = time.perf_counter() - began, cpu_s() - used
    assert database.execute("SELECT count(*) FROM results").fetchone() == (runs,)
    database.close()
    return runs / took, used / runs * 1e6


def cpu_s() -> float:
    """Of this process and all that it started, however far they have gone; they carry a mark of its own."""
    own = time.process_time()
    others = proc.marked(MARK, os.environ[MARK]) if MARK in os.environ else []
    return own + sum(proc.cpu_s(pid) for pid in others if pid != os.getpid())


def together(start: Start, numbers: Sequence[int], batch: int) -> Iterator[int]:
    if batch == 1:
        yield from start(nothing, numbers)
    else:
        for values in start(nothings, [list(numbers[at : at + batch]) for at in range(0, len(numbers), batch)]):
            yield from values


@contextmanager
def ours() -> Iterator[Start]:
    """A live session; every call of what it gives is one sweep, and results come to this thread as they end."""
    with opened() as session:

        def start(function: Callable[[Any], Any], arguments: Sequence[Any]) -> Iterator[Any]:
            ends: queue.SimpleQueue[Any] = queue.SimpleQueue()
            runs = submit(session, function, [{"number": one} for one in arguments])
            for future in runs.values():
                future.add_done_callback(ends.put)
            for _ in runs:
                state, value = ends.get(timeout=TURN_S).result()
                assert state.value == "finished", value
                yield value

        yield start


if __name__ == "__main__":
    with redirect_stdout(sys.stderr):  # systems greet on the standard output
        found = one_turn(sys.argv[1], int(sys.argv[2]))
    print(json.dumps(found))
