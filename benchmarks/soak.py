"""Sessions one after the other in one process, things going wrong in all of them: what is lost, wrong or left behind?

``python -m benchmarks.soak`` runs ten (tasks of which one hangs, own sweeps, sweeps of the shipped workload, a heavy
one) in storms of killed workers and runners, frozen processes, cut connections and a store that takes nothing for a
while. Every sweep's rows must equal those of a calm session before. It prints a table, writes
``benchmarks/results/soak.json`` and ends with status 1 if anything was not as it must be. ``tests/live/chaos`` has a
short form.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.soaking import CODE, KINDS, LONG, PLAINS, Kind, square

if TYPE_CHECKING:
    from scalable.observe import RunFolder, RunView
    from scalable.session.session import ScalableSession

RESULTS = Path(__file__).parent / "results/soak.json"
MARK = "SOAK_OF_SESSIONS"  # in the environment of every process that a soak starts
SESSION_WITHIN_S = 300.0
GONE_WITHIN_S = 20.0
MORE_MEMORY = 60 << 20  # bytes that the driver may have at the end beyond what it had after every kind was seen once
MORE_FILES = 8  # open files, and threads: a few come and go with Dask's pools
SEED = 20260415
FAULTS: Mapping[str, float] = {
    "kill-runner": 4, "kill-worker": 2, "stop-runner": 2, "block-store": 2, "cut-network": 2,
}  # fmt: skip


@dataclass
class Seen:
    """One session."""

    kind: str
    seconds: float = 0.0
    done: int = 0
    expected: int = 0
    wrong: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    retries: int = 0
    stuck: int = 0
    peak: int = 0
    """The most memory that a run used."""
    out_of_memory: int = 0
    failed: int = 0
    left: list[str] = field(default_factory=list)
    memory: int = 0
    files: int = 0
    threads: int = 0

    @property
    def good(self) -> bool:
        complete = self.done == self.expected and not (self.wrong or self.left)
        return complete and not (self.out_of_memory or self.failed)


def soak(kinds: Sequence[str], tell: Callable[[str], None] = print, *, faults: float = 1.0) -> dict[str, Any]:
    """Run sessions of these kinds; what was seen, and what was not as it must be. ``faults`` more or less of them."""
    tell(HEADER)
    with alone() as place:
        calm = {name: place.session(KINDS[name], "calm") for name in dict.fromkeys(kinds) if KINDS[name].sweep}
        for seen, _ in calm.values():
            tell(line(0, seen))
        before = next(reversed(calm.values()))[0]
        sessions = []
        for number, name in enumerate(kinds, 1):
            seen, results = place.session(KINDS[name], f"{number}", faults=faults)
            right = calm[name][1] if name in calm else KINDS[name].answers
            seen.wrong = sum(results.get(key) != value for key, value in right.items())
            sessions.append(seen)
            tell(line(number, seen))
    problems = [f"session {at} ({one.kind}): {asdict(one)}" for at, one in enumerate(sessions, 1) if not one.good]
    problems += [f"the calm {one.kind}: {asdict(one)}" for one, _ in calm.values() if not one.good]
    last = sessions[-1]
    grown = {name: getattr(last, name) - getattr(before, name) for name in ("memory", "files", "threads")}
    if grown["memory"] > MORE_MEMORY or max(grown["files"], grown["threads"]) > MORE_FILES:
        problems.append(f"the driver has grown: {grown}")
    made = sum(sum(one.faults.values()) for one in sessions)
    return {
        "sessions": [asdict(one) for one in sessions],
        "faults made": made,
        "retries": sum(one.retries for one in sessions),
        "out of memory": sum(one.out_of_memory for one in sessions),
        "failed for good": sum(one.failed for one in sessions),
        "rows and results": sum(one.done for one in sessions),
        "wrong": sum(one.wrong for one in sessions),
        "grown": grown,
        "problems": problems,
    }


@contextmanager
def alone() -> Iterator[Place]:
    """A folder of its own for runs, stores and temporary files; afterwards all is as it was."""
    before, variables = Path.cwd(), dict(os.environ)
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    token = secrets.token_hex(8)
    (folder / "tmp").mkdir()
    os.environ.update({"TMPDIR": str(folder / "tmp"), "SCALABLE_RUNS_DIR": str(folder / "runs"), MARK: token})
    tempfile.tempdir = None  # it is remembered
    sys.path.insert(0, str(folder))
    try:
        yield Place(folder, token)
    finally:
        sys.path.remove(str(folder))
        os.chdir(before)
        os.environ.clear()
        os.environ.update(variables)
        tempfile.tempdir = None
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Place:
    folder: Path
    token: str

    def session(self, kind: Kind, name: str, faults: float = 0.0) -> tuple[Seen, dict[str, Any]]:
        """One session, and its rows or results by name."""
        from scalable.observe import RunView, read
        from scalable.session.session import ScalableSession

        home = self.folder / f"{kind.name}-{name}"
        home.mkdir()
        os.chdir(home)
        Path("soaking_code.py").write_text(CODE, encoding="utf-8")
        Path("scalable.yaml").write_text(json.dumps(kind.manifest()), encoding="utf-8")
        session = ScalableSession.from_yaml("scalable.yaml")
        seen, began = Seen(kind.name, expected=kind.expected), time.monotonic()
        with Storm(kind, round(faults * kind.faults)) as storm, ThreadPoolExecutor(1) as hand:
            working = hand.submit(worked, session, kind, storm)
            try:
                results = working.result(SESSION_WITHIN_S)
            finally:
                session.close("interrupted", "the soak gave it up")  # nothing if it has ended
        seen.seconds, seen.faults = time.monotonic() - began, storm.made
        view = RunView.of(read(session.folder.journal))
        seen.done, seen.retries = len(results), sum(view.retries.values())
        seen.out_of_memory, seen.failed = view.out_of_memory, view.failed
        seen.stuck = sum(one.get("kind") == "stuck" for one in view.recorded.values())
        used = [*view.run_peaks.values(), *(one.peak or 0 for one in view.sweeps.values())]
        seen.peak = max(used, default=0)
        self.look(seen, session, view)
        return seen, results

    def look(self, seen: Seen, session: ScalableSession, view: RunView) -> None:
        """What is left of it, and what its driver has become."""
        import psutil

        if view.status != "ok":
            seen.left.append(f"ended as {view.status or 'nothing'}")
        deadline = time.monotonic() + GONE_WITHIN_S
        while (left := self.left(session.folder)) and time.monotonic() < deadline:
            time.sleep(0.05)
        seen.left += left
        gc.collect()
        own = psutil.Process()
        seen.memory, seen.files, seen.threads = own.memory_info().rss, own.num_fds(), threading.active_count()

    def left(self, run: RunFolder) -> list[str]:
        """Processes, temporary files, unanswered questions, places and rows that did not get into the store."""
        from scalable import proc
        from scalable.chaos.victims import environment
        from scalable.store import open_store

        alive = [pid for pid in proc.pids() if pid != os.getpid() and environment(pid).get(MARK) == self.token]
        found = [f"process {pid}" for pid in alive if proc.alive(pid)]
        scratch = self.folder / "tmp/dask-scratch-space"  # Dask keeps the folder itself, and its locks
        found += [str(path) for path in (self.folder / "tmp").iterdir() if path != scratch]
        found += [str(path) for path in scratch.glob("*") if path.is_dir()]
        found += [
            path.name for path in run.path.rglob("*") if path.suffix == ".part" or path.name.endswith(".ask.json")
        ]
        found += [path.name for path in run.path.glob("live.json")]
        found += [str(path) for path in Path.cwd().rglob("*.claim")]
        with open_store(session_store()) as store:
            found += [f"place of {one.name}" for one in store.leases().list()]
            found += [f"{store.waiting} rows wait"] if store.waiting else []
            found += [f"dead letter {one.id}" for one in store.dead_letters()]
        return found


def session_store() -> str:
    return f"sqlite:///{Path.cwd()}/results.db"


def worked(session: ScalableSession, kind: Kind, storm: Storm) -> dict[str, Any]:
    """Do the work of a session to its end, with a storm while it runs."""
    if kind.sweep:
        session.run_sweep(kind.sweep, tell=lambda text: None, watched=storm.over)
        with session.open_store() as store:
            return {row.run_key: row.metrics for row in store.rows() if row.finished}
    with session as client, storm.over(session.folder):
        plain = client.map(square, range(PLAINS), tag="model", pure=False)
        results = session.run_tasks()
        return {**results, **{f"plain {at}": value for at, value in enumerate(client.gather(plain))}}


class Storm:
    """Faults in a run, made by a thread of its own while ``over`` is entered."""

    def __init__(self, kind: Kind, faults: int) -> None:
        self.kind, self.faults = kind, faults
        self.made: dict[str, int] = {}
        self.stop = threading.Event()

    def __enter__(self) -> Storm:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()

    @contextmanager
    def over(self, run: RunFolder) -> Iterator[None]:
        thread = threading.Thread(target=self.rage, args=(run,), name="storm")
        thread.start()
        try:
            yield
        finally:
            self.stop.set()
            thread.join()

    def rage(self, run: RunFolder) -> None:
        from scalable.chaos import Wish, storm

        chance = random.Random(f"{SEED} {run.path.name[-8:]}")
        wish = Wish(how=chance.choice(("sever", "freeze")), store=session_store())
        weather = storm(
            run, seed=chance.randrange(1 << 30), faults=self.faults, over=self.kind.storm_s, kinds=FAULTS, wish=wish,
            stop=self.stop.is_set,
        )  # fmt: skip
        for one in weather:
            self.made[one.name] = self.made.get(one.name, 0) + one.made


COLUMNS = (
    "session", "kind", "seconds", "done", "wrong", "faults", "retries", "stuck", "peak", "OOM", "failed", "left", "MiB",
    "files", "threads",
)  # fmt: skip
HEADER = f"{COLUMNS[0]:>7} {COLUMNS[1]:<10}" + "".join(f" {name:>8}" for name in COLUMNS[2:])


def line(number: int, seen: Seen) -> str:
    cells = [
        f"{seen.seconds:.1f}", f"{seen.done}/{seen.expected}", seen.wrong, sum(seen.faults.values()), seen.retries,
        seen.stuck, seen.peak >> 20, seen.out_of_memory, seen.failed, len(seen.left), seen.memory >> 20, seen.files,
        seen.threads,
    ]  # fmt: skip
    return f"{number or 'calm':>7} {seen.kind:<10}" + "".join(f" {cell:>8}" for cell in cells)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=len(LONG), metavar="N", help="how many (default: 10)")
    wanted = max(1, parser.parse_args().sessions)
    began = time.monotonic()
    found = soak([LONG[at % len(LONG)] for at in range(wanted)], lambda text: print(text, flush=True))
    found["minutes"] = round((time.monotonic() - began) / 60, 2)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for problem in found["problems"]:
        print(f"! {problem}")
    told = ("faults made", "retries", "out of memory", "failed for good", "wrong", "minutes")
    print(", ".join(f"{name}: {found[name]}" for name in told))
    return 1 if found["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
