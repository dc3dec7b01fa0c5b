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
from typing import Any

from benchmarks.peers import PEERS, WORKERS, Start, nothing, nothings
from benchmarks.sessions import opened, submit

RUNS = 5000
ROUNDS = 3
BATCH = 64  # runs in one task where others batch by hand
WARM_UP = 256  # runs before the clock starts: processes are there, modules are imported
TURN_S = 300.0  # a system that takes longer than that for one turn has hung
OURS = "scalable"


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
                print(f"{name}: {missing[name]}; pip install 'scalable[bench]'", file=sys.stderr)
                continue
            for what, rate in turn.items():
                seen.setdefault(name, {}).setdefault(what, []).append(rate)
    rates = {name: {what: statistics.median(all_) for what, all_ in turns.items()} for name, turns in seen.items()}
    ours = rates[OURS]["runs a second"]
    ratios = {f"to {name}, {what}": ours / rate for name in rates if name != OURS for what, rate in rates[name].items()}
    return {"runs": RUNS, "workers": WORKERS, "rounds": ROUNDS, "batch": BATCH, **rates, **missing, "ratio": ratios}


def measured_apart(name: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.runs", name, str(RUNS)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # Parsl starts programs of its own from it
    code = os.pathsep.join(filter(None, [str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PATH": path, "PYTHONPATH": code}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TURN_S, check=True, env=env)
    turn: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return turn


def one_turn(name: str, runs: int) -> dict[str, Any]:
    """Runs a second, result by result in the database; in batches too where that is not done by the system itself."""
    try:
        with tempfile.TemporaryDirectory() as folder, (ours if name == OURS else PEERS[name])() as start:
            rates = {"one task a run" if name != OURS else "runs a second": stored(start, runs, Path(folder))}
            if name != OURS:
                rates["batched by hand"] = stored(start, runs, Path(folder), BATCH)
            return rates
    except ModuleNotFoundError as error:
        if name == OURS:
            raise
        return {"missing": error.name}


def stored(start: Start, runs: int, folder: Path, batch: int = 1) -> float:
    """Carry out, commit each result by itself, give the rate."""
    assert sum(1 for _ in together(start, range(WARM_UP), batch)) == WARM_UP
    database = sqlite3.connect(folder / f"{batch}.db")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE results (run INTEGER PRIMARY KEY, value INTEGER)")
    began = time.perf_counter()
    for value in together(start, range(runs), batch):
        database.execute("INSERT INTO results VALUES (?, ?)", (value, value))
        database.commit()
    took = time.perf_counter() - began
    assert database.execute("SELECT count(*) FROM results").fetchone() == (runs,)
    database.close()
    return runs / took


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
