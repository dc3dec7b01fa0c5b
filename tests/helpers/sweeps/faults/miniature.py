"""A miniature sweep in a folder, run by ``scalable run`` in processes of its own, that notes what it executes.

24 rows in 12 units on 3 tables; stages sleep a little, so that there are moments to be killed in. Everything started
for it carries a mark in its environment, by which it is known whether something was left behind.
"""

from __future__ import annotations

import io
import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import chdir, closing, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any
from unittest import mock
from uuid import uuid4

import psycopg
import yaml

from scalable.cli.main import main
from scalable.manifest import load_file
from scalable.observe import RunFolder
from scalable.store import Filter, Row, open_store
from scalable.store.artefacts import open_artefacts
from scalable.store.tables import results
from scalable.sweeps.compiling import Compiled, compiled
from scalable.sweeps.loading import importable
from tests.helpers.settings import without_settings
from tests.helpers.waiting import until
from tests.tools import processes

WITHIN_S = 120.0  # a hang is longer than anything a busy machine needs
MARK = "SCALABLE_TEST_MINIATURE"
QUIET = ("--format", "json")  # decisions need statistics, which take a second to import
NAP_S = 0.1
CODE = """
    import os
    import time
    from pathlib import Path

    from scalable.sweeps.stages import scratch, stage
    from scalable.sweeps.workload import Workload

    def note(what):
        line = f"{{what}} {{os.getpid()}}\\n".encode()
        file = os.open("executed.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line)
        os.close(file)

    @stage(reads=("asset",))
    def table(*, asset):
        note(f"table-{{asset}}")
        time.sleep({nap})
        return [len(asset)] * {size}

    @stage(reads=("asset", "depth", "fold", "seed"))
    def fitted(table, *, asset, depth, fold, seed):
        note(f"fitted-{{asset}}-{{depth}}-{{fold}}")
        half_done = scratch()
        if half_done is not None:
            (half_done / "state").write_text("begun")
        time.sleep({nap})
        if Path(f"break-{{depth}}-{{fold}}").exists():
            raise ValueError(f"depth {{depth}} does not fit")
        if Path("grow").exists():
            grown = b"." * int(Path("grow").read_text())
            time.sleep(0.5)
        while Path("hold").exists():
            time.sleep(0.02)
        return table[0] * depth / 3 + fold + seed

    @stage(reads=("asset", "depth", "fold", "cost_bps"), keep=False)
    def row(fitted, *, asset, depth, fold, cost_bps):
        note(f"row-{{asset}}-{{depth}}-{{fold}}-{{cost_bps:g}}")
        return {{"score": fitted - cost_bps / 7, "buys": int(fitted)}}

    work = Workload((table, fitted, row), unit="fitted")
"""


@dataclass
class Started:
    """``scalable run`` in a process of its own."""

    process: subprocess.Popen[bytes]
    output: Path

    def wait(self) -> int:
        """Its exit status."""
        try:
            return self.process.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"it does not end: {self.said()}") from None

    def said(self) -> str:
        return " ".join(self.output.read_text(encoding="utf-8", errors="replace").split())


@dataclass
class Miniature:
    folder: Path
    store: str = "sqlite:///.scalable/results.db"
    nap_s: float = NAP_S
    sections: dict[str, Any] = field(default_factory=dict)
    sweep: dict[str, Any] = field(default_factory=dict)
    size: int = 1
    """How many numbers a table has."""
    name: str = "mini"
    mark: str = field(default_factory=lambda: uuid4().hex)
    numbers: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.module = f"mini_{self.mark}"
        code = dedent(CODE).format(nap=self.nap_s, size=self.size)
        (self.folder / f"{self.module}.py").write_text(code, encoding="utf-8")
        self.write()

    def write(self) -> None:
        sweep = {
            "factor": "depth", "variants": [1, 2], "assets": ["A", "BB", "CCC"], "folds": 2, "costs_bps": [1, 2],
            "run": f"{self.module}:work", "run_minutes": 0.01, **self.sweep,
        }  # fmt: skip
        manifest = {
            "version": 1, "project": {"name": "miniature"}, "store": self.store, "sweeps": {self.name: sweep},
            "targets": {"here": {"provider": "local", "max_workers": 2, "processes": True}},
            "policies": {"retry": {"delay": "0s", "times": 20}, "concurrency": {"normal": 50}}, **self.sections,
        }  # fmt: skip
        self.manifest.write_text(yaml.safe_dump(manifest, sort_keys=False), encoding="utf-8")

    @property
    def manifest(self) -> Path:
        return self.folder / "scalable.yaml"

    @property
    def environment(self) -> dict[str, str]:
        kept = without_settings()
        return {**kept, "SCALABLE_CACHE_DIR": str(self.folder / "cache"), MARK: self.mark}

    def start(self, *arguments: str, script: str = "") -> Started:
        """``scalable run``, or a script that calls it; it does not outlive this test's process by much."""
        self.numbers += 1
        output = self.folder / f"output-{self.numbers}.txt"
        command = ["-c", dedent(script)] if script else ["-m", "scalable", "run", "--sweep", self.name, *QUIET]
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, *command, *arguments], cwd=self.folder, env=self.environment,
                stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            )  # fmt: skip
        return Started(process, output)

    def run(self, *arguments: str) -> Started:
        started = self.start(*arguments)
        started.wait()
        return started

    def here(self, arguments: list[str] | None = None) -> tuple[int, str]:
        """The same, or another command, in this process, which is faster: its exit status and what it said."""
        before = self.sections
        self.sections = {**before, "targets": {"here": {"provider": "local", "max_workers": 2}}}
        self.write()
        said = io.StringIO()
        with (
            chdir(self.folder), mock.patch.dict(os.environ, self.environment, clear=True), redirect_stdout(said),
            redirect_stderr(said),
        ):  # fmt: skip
            status = main(arguments or ["run", "--sweep", self.name, *QUIET])
        self.sections = before
        self.write()
        return status, " ".join(said.getvalue().split())

    def compiled(self) -> Compiled:
        with importable(self.folder):
            return compiled(load_file(self.manifest, env={}).manifest, self.name, {})

    @property
    def store_url(self) -> str:
        return self.store.replace("sqlite:///", f"sqlite:///{self.folder}/") if "////" not in self.store else self.store

    def rows(self) -> dict[str, Row]:
        with open_store(self.store_url) as store:
            found = list(store.rows(Filter(sweep=self.name)))
        assert len({row.run_key for row in found}) == len(found), "a row is there twice"
        return {row.run_key: row for row in found}

    def committed(self) -> set[str]:
        """Keys of finished rows in the database, read without helping: opening a store moves what was left for it."""
        statement = f"SELECT run_key FROM {results.name} WHERE run_status = 'finished'"
        if self.store.startswith("postgresql"):
            with psycopg.connect(self.store, connect_timeout=10) as server:
                return {key for (key,) in server.execute(statement.encode())}
        file = self.folder / self.store.removeprefix("sqlite:///")
        if not file.exists():
            return set()
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
            return {key for (key,) in database.execute(statement)}

    def executed(self) -> list[str]:
        """What stages were begun, in order."""
        log = self.folder / "executed.log"
        lines = log.read_text(encoding="ascii").split("\n")[:-1] if log.exists() else []
        return [line.partition(" ")[0] for line in lines]

    def at_work(self) -> list[int]:
        """Processes that executed a stage, the latest first."""
        log = self.folder / "executed.log"
        lines = log.read_text(encoding="ascii").split("\n")[:-1] if log.exists() else []
        return list(dict.fromkeys(int(line.partition(" ")[2]) for line in reversed(lines)))

    def run_folders(self) -> list[RunFolder]:
        return [RunFolder(path) for path in sorted((self.folder / ".scalable" / "runs").glob("run-*"))]

    def artefacts(self) -> set[tuple[str, str]]:
        """Stages and keys of results that are kept."""
        return {(one.stage, one.key) for one in open_artefacts(self.folder / ".scalable" / "artefacts").list()}

    def unfinished(self) -> list[str]:
        """Half-done work, results in the making and rows on their way, by file."""
        home = self.folder / ".scalable"
        patterns = ("artefacts/.scratch/*/*", "artefacts/**/*.part", "artefacts/**/*.damaged", "**/*-outbox-*")
        return [str(path.relative_to(home)) for one in patterns for path in home.glob(one)]

    def left(self) -> list[str]:
        """Processes that were started for it and live."""
        found = [one for one in processes.everyone() if processes.environment(one.pid).get(MARK) == self.mark]
        return [f"{one.pid} {one.name}" for one in found]

    def gone(self) -> bool:
        return until(lambda: not self.left(), 30)

    def end(self) -> None:
        """Whatever happened, nothing of it lives on."""
        pids = [one.pid for one in processes.everyone() if processes.environment(one.pid).get(MARK) == self.mark]
        processes.kill(pids)


def labels(work: Compiled) -> tuple[dict[tuple[str, str], str], dict[str, str]]:
    """How executions are noted: of kept stages by stage and key, of rows by their key."""
    stages, rows = {}, {}
    for cell, where in work.cells:
        (variant,), (asset, fold), (cost,) = where
        stages["table", cell.keys["table"]] = f"table-{asset}"
        stages["fitted", cell.keys["fitted"]] = f"fitted-{asset}-{variant}-{fold}"
        rows[cell.run_key] = f"row-{asset}-{variant}-{fold}-{cost:g}"
    return stages, rows


class Watch:
    """What was there at a moment may not be executed afterwards."""

    def __init__(self, mini: Miniature) -> None:
        self.mini = mini
        self.stages, self.row_names = labels(mini.compiled())
        self.moments: list[tuple[set[str], int]] = []

    def look(self) -> int:
        """Remember what is complete now; how much that is."""
        there = {self.stages[one] for one in self.mini.artefacts()}
        with suppress(sqlite3.Error, psycopg.Error):  # no table yet, or no server
            there |= {self.row_names[key] for key in self.mini.committed()}
        self.moments.append((there, len(self.mini.executed())))  # read afterwards: it may have gone on
        return len(there)

    def repeated(self) -> list[str]:
        """What was executed although it was there."""
        executed = self.mini.executed()
        return [one for there, since in self.moments for one in executed[since:] if one in there]


def undisturbed(work: Compiled) -> dict[str, Any]:
    """The metrics of every row, by key, as the same arithmetic gives them here."""
    found = {}
    for key, where in work.expected:
        (variant,), (asset, fold), (cost,) = where
        fitted = len(str(asset)) * float(variant) / 3 + int(fold)
        found[key] = {"score": fitted - float(cost) / 7, "buys": int(fitted)}
    return found


def metrics(rows: dict[str, Row]) -> dict[str, Any]:
    return {key: row.metrics for key, row in rows.items() if row.finished}


def again(executed: list[str]) -> int:
    """Executions beyond the first of each."""
    return sum(count - 1 for count in Counter(executed).values())


def wait_for(condition: Callable[[], object], what: str, started: Started | None = None) -> None:
    """Until something is so; not for ever, and not for somebody who has ended."""
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        ended = started is not None and started.process.poll() is not None
        if (ended and not condition()) or time.monotonic() > deadline:
            raise AssertionError(f"{what} never was; {started.said() if started else ''}")
        time.sleep(0.01)
