"""What a whole factor costs: this system beside a loop that shares nothing, graphs by hand, and the bound.

``factor`` has the five ways. Each runs in a process of its own, one after the other, from an empty folder, and all rows
are compared with ours. The loop is measured on one row for each asset and fold, between the turns of the others, and
its time multiplied. Ratios are of one round; told are their median and range. CPU time is that of all processes a way
has started, looked at from outside. ``python -m benchmarks.sweeps`` prints the figures, ``python -m benchmarks.sweeps
ours calibration`` those of one way.
"""

from __future__ import annotations

import compileall
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.factor import FOLDS, Row
from scalable import proc

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples/ftf/scalable.yaml"
MARK = "SCALABLE_BENCHMARK"  # in the environment of a way's processes
LOOK_S = 0.25  # between two looks at them
TURN_S = 1800.0  # a way that takes longer has hung
LONGEST = 4000  # characters of what a way said that are shown where it failed
SAME = 1e-12  # how much metrics may differ: by nothing but the text they were written in
ROUNDS = 3
CALIBRATION_TRIALS = 30
N_FEATURES_TRIALS = 6  # 100 searches of 30 trials would take five minutes; the ratio is that of the stages shared
RUNNERS = "scalable.worker.runner"  # in the command of a process that computes; all others of ours orchestrate
MANY = 10_000
MANY_ROWS = """
version: 1
project: {name: many}
targets: {local: {provider: local, max_workers: 2, processes: true}}
sweeps:
  many:
    factor: step
    run: trivial:row
    variants: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assets: [A, B, C, D, E, F, G, H, I, J]
    folds: 100
"""
TRIVIAL = """
def row(step, asset, fold):
    return {"score": float(step + fold)}
"""


SAMPLES = 3000  # events of a training set at most; without it a heavy factor is planned for what others have used


def measure() -> dict[str, Any]:
    # as where it is installed: no process of any way compiles our code anew
    compileall.compile_dir(ROOT / "src", quiet=1)
    return {"calibration": calibration(), "n_features": n_features(), f"{MANY:,} rows that do nothing": many()}


def calibration() -> dict[str, Any]:
    """225 rows, 25 distinct searches."""
    rounds = [one_round("calibration", CALIBRATION_TRIALS, ("ours", "bound", "dask", "ray")) for _ in range(ROUNDS)]
    peers = [peer for peer in ("dask", "ray") if "missing" not in rounds[0][peer]]
    return {
        "trials": CALIBRATION_TRIALS,
        **figures(rounds),
        "naive to ours": {**ratios(rounds, "naive", "ours"), "goal at least": 16.0},
        "naive to the bound": ratios(rounds, "naive", "bound"),
        "ours to the bound": {**ratios(rounds, "ours", "bound"), "goal at most": 1.10},
        "ours to the bound, CPU": ratios(rounds, "ours", "bound", "cpu_s"),
        **{f"ours to {peer} by hand": {**ratios(rounds, "ours", peer), "goal below": 1.0} for peer in peers},
        **{f"ours to {peer} by hand, CPU": ratios(rounds, "ours", peer, "cpu_s") for peer in peers},
        "orchestration, share of CPU": {**shares(rounds, "orchestration_s"), "goal at most": 0.02},
        "orchestration, share of CPU, before the first unit": shares(rounds, "start_s"),
    }


def n_features() -> dict[str, Any]:
    """300 rows, 100 distinct searches: at most 6 times faster on 2 CPUs than a loop."""
    rounds = [one_round("n_features", N_FEATURES_TRIALS, ("ours",))]
    compared = {**ratios(rounds, "naive", "ours"), "goal at least": 4.5}
    return {"trials": N_FEATURES_TRIALS, **figures(rounds), "naive to ours": compared}


def one_round(sweep: str, trials: int, ways: Sequence[str]) -> dict[str, Any]:
    """Each way once; before, between and after them parts of the loop: a machine's speed changes by the minute."""
    turns: dict[str, Any] = {}
    parts: list[dict[str, Any]] = []
    for number, way in enumerate([*ways, ""]):
        parts += [turn("naive", sweep, trials, part) for part in range(number, FOLDS, len(ways) + 1)]
        if way:
            turns[way] = turn(way, sweep, trials)
    rows = [row for part in parts for row in part["rows"]]
    # Libraries are imported for a part's first row; a loop over all rows would import them once.
    one = sum(part["seconds"] - part["first_s"] for part in parts) / (len(rows) - len(parts))
    seconds = parts[0]["first_s"] + one * (len(turns["ours"]["rows"]) - 1)
    turns["naive"] = {"rows": rows, "seconds": seconds, "cpu_s": sum(part["cpu_s"] for part in parts)}
    return turns


def ratios(rounds: Sequence[Mapping[str, Any]], one: str, other: str, what: str = "seconds") -> dict[str, float]:
    return spread([turns[one][what] / turns[other][what] for turns in rounds])


def shares(rounds: Sequence[Mapping[str, Any]], what: str) -> dict[str, float]:
    return spread([turns["ours"][what] / turns["ours"]["cpu_s"] for turns in rounds])


def spread(found: Sequence[float]) -> dict[str, float]:
    return {"ratio": median(found), "least": min(found), "most": max(found)}


def figures(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of each way, after its rows were found to be those of our first turn."""
    ours = {tuple(row[:4]): row[4] for row in rounds[0]["ours"]["rows"]}
    told: dict[str, Any] = {"rows": len(ours)}
    for way in rounds[0]:
        turns = [turns[way] for turns in rounds]
        if "missing" in turns[0]:
            told[way] = f"not measured: {turns[0]['missing']} is not installed; pip install -e '.[bench]'"
            continue
        for found in turns:
            assert way == "naive" or len(found["rows"]) == len(ours), (way, len(found["rows"]))
            for row in found["rows"]:
                assert same(row[4], ours[tuple(row[:4])]), (way, row, ours[tuple(row[:4])])
        names = ("seconds", "cpu_s") if way != "naive" else ("seconds",)
        told[way] = {name: [round(found[name], 2) for found in turns] for name in names}
        told[way]["rows identical"] = len(turns[0]["rows"])
    told["ours"] |= {name: [turns["ours"][name] for turns in rounds] for name in ("orchestration_s", "driver_mb")}
    return told


def same(metrics: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    return metrics.keys() == others.keys() and all(equal(metrics[name], others[name]) for name in metrics)


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=SAME, abs_tol=SAME) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


def turn(way: str, sweep: str, trials: int, *parts: int) -> dict[str, Any]:
    """One way, once, in a folder of its own: its rows, seconds and CPU."""
    import yaml

    manifest = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    manifest["sweeps"][sweep] |= {"trials": trials, "samples": SAMPLES}
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "scalable.yaml"
        path.write_text(yaml.safe_dump(manifest), encoding="utf-8")
        return carried_out(way, path, sweep, *parts)


def carried_out(way: str, manifest: Path, sweep: str, *parts: int) -> dict[str, Any]:
    told = manifest.parent / "told.json"
    arguments = (way, str(manifest), sweep, str(told), *parts)
    mark = token_hex(8)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": path, MARK: mark}
    if way == "bound":  # the others have what their users have: ours, Dask and Ray see to it themselves
        env["OMP_NUM_THREADS"] = "1"
    command = [sys.executable, "-c", f"from benchmarks.factor import main; main(*{arguments!r})"]
    log = manifest.parent / "said.txt"  # systems say much when they are closed; it is shown only where they failed
    with log.open("w") as said:
        process = subprocess.Popen(command, env=env, cwd=manifest.parent, stdout=said, stderr=said)
        try:
            seen, start = watched(process, mark)
        finally:
            if process.poll() is None:  # someone does not want to wait for the figures
                proc.kill_tree(process.pid)
    if process.returncode != 0:
        end = log.read_text(encoding="utf-8", errors="replace")[-LONGEST:]
        raise RuntimeError(f"{way} of {sweep} ended with {process.returncode}: {end}")
    found: dict[str, Any] = json.loads(told.read_text(encoding="utf-8"))
    found["cpu_s"] = sum(cpu for _, cpu, _ in seen.values())
    found["orchestration_s"] = orchestration(seen)
    found["start_s"] = start
    found["driver_mb"] = round(seen[process.pid][2] / 1e6, 1)
    found["processes"] = sorted(seen.values(), key=lambda one: -one[1])
    return found


Seen = dict[int, tuple[str, float, int]]
"""Of every process of a way by its number: its command, its CPU seconds and its largest memory in bytes."""


def watched(process: subprocess.Popen[bytes], mark: str) -> tuple[Seen, float]:
    """What was seen of it until its end, and the CPU seconds of orchestration before anything was computed."""
    seen: Seen = {}
    start = 0.0
    deadline = time.monotonic() + TURN_S
    while process.poll() is None:
        # by both: some leave the tree, others write their title over their environment
        for pid in {*proc.tree(process.pid), *proc.marked(MARK, mark)}:
            command, cpu = looked_at(pid)
            before = seen.get(pid, ("", 0.0, 0))
            seen[pid] = (command or before[0], max(cpu, before[1]), max(proc.resident(pid), before[2]))
        if not any(RUNNERS in command for command, _, _ in seen.values()):
            start = orchestration(seen)
        if time.monotonic() > deadline:
            proc.kill_tree(process.pid)
        time.sleep(LOOK_S)
    return seen, start


def orchestration(seen: Seen) -> float:
    return round(sum(cpu for command, cpu, _ in seen.values() if RUNNERS not in command), 2)


def looked_at(pid: int) -> tuple[str, float]:
    """A process's command and the CPU seconds of itself alone: its children are looked at themselves."""
    entry = Path(f"/proc/{pid}")
    try:
        ticks = (entry / "stat").read_text().rpartition(")")[2].split()[11:13]
        command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "", 0.0
    return command, sum(map(int, ticks)) / proc.TICKS


def many() -> dict[str, Any]:
    """Rows a second, and the largest memory of the driver, where every row is a unit of its own."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "scalable.yaml"
        path.write_text(MANY_ROWS, encoding="utf-8")
        (path.parent / "trivial.py").write_text(TRIVIAL, encoding="utf-8")
        found = carried_out("ours", path, "many")
    rows: Sequence[Row] = found["rows"]
    assert len(rows) == MANY, len(rows)
    return {
        "seconds": round(found["seconds"], 2),
        "rows a second": round(MANY / found["seconds"]),
        "cpu_s": round(found["cpu_s"], 2),
        "driver": {"megabytes": found["driver_mb"], "goal below": 300.0},
    }


def main(arguments: list[str]) -> None:
    if not arguments:
        print(json.dumps(measure(), indent=1))
        return
    way, sweep = arguments[:2]
    trials = int(arguments[2]) if len(arguments) > 2 else CALIBRATION_TRIALS
    found = turn(way, sweep, trials)
    print(f"{way}: {len(found['rows'])} rows in {found['seconds']:.2f} s, {found['cpu_s']:.2f} s of CPU")
    for command, cpu, memory in found["processes"]:
        print(f"  {cpu:8.2f} s {memory / 1e6:8.1f} MB  {command[: shutil.get_terminal_size().columns - 24]}")


if __name__ == "__main__":
    main(sys.argv[1:])
