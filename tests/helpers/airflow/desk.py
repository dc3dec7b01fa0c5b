"""A real Airflow with a rendered DAG: its own environment and database, tasks as processes of this machine."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any
from urllib.request import urlopen

import yaml

from scalable import proc
from scalable.deploy.airflow import render
from scalable.manifest import load_text
from scalable.store import Filter, Row, open_store

START_S = 600.0  # Airflow imports for long, and longer on a busy machine
SWEEP = {"factor": "depth", "variants": [1, 2], "assets": ["A", "B", "C"], "folds": 2, "run": "scored:score"}
CODE = """
import json, os, signal, time
from pathlib import Path

def score(depth, asset, fold):
    with open("computed.log", "a") as log:
        log.write(f"{depth} {asset} {fold}\\n")
    if asset == "B" and fold == 1:
        trouble(depth)
    return {"score": depth * 10 + fold}

def trouble(depth):
"""
NONE = "    pass\n"
LOST = """
    if not os.path.exists("killed"):
        newest = max(Path(".scalable/runs").glob("run-*"), key=lambda path: path.stat().st_mtime)
        Path("killed").touch()
        os.kill(json.loads((newest / "run.json").read_text())["pid"], signal.SIGKILL)
        time.sleep(60)
"""
WRONG = """
    if depth == 2:
        raise ValueError("depth 2 does not fit")
"""


@dataclass
class Desk:
    """A folder with a manifest, its code and an Airflow that has its DAG."""

    folder: Path
    programs: Path
    port: int = 0
    """Where Airflow's tasks report to, when it is running."""

    def write(self, trouble: str = NONE, **sweep: Any) -> str:
        """The project and its DAG; gives the DAG's id."""
        manifest = {
            "version": 1, "project": {"name": "proof"}, "targets": {"here": {"provider": "local"}},
            "sweeps": {"trial": {**SWEEP, **sweep}}, "policies": {"retry": {"delay": "1s", "cap": "2s"}},
        }  # fmt: skip
        text = yaml.safe_dump(manifest, sort_keys=False)
        path = self.folder / "scalable.yaml"
        path.write_text(text, encoding="utf-8")
        (self.folder / "scored.py").write_text(dedent(CODE) + trouble, encoding="utf-8")
        (self.folder / "dags").mkdir(exist_ok=True)
        loaded = load_text(text, env={}).manifest
        for name, dag in render(loaded, "here", "trial", manifest_path=path).items():
            (self.folder / "dags" / name).write_text(dag, encoding="utf-8")
        return "scalable_trial"

    @property
    def database(self) -> Path:
        (self.folder / "airflow").mkdir(exist_ok=True)
        return self.folder / "airflow" / "airflow.db"

    @property
    def env(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("SCALABLE_", "AIRFLOW"))}
        paths = [str(self.programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        return own | {
            "PATH": os.pathsep.join(paths),
            "AIRFLOW_HOME": str(self.folder / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.folder / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.database}",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{self.port}/execution/",
            "AIRFLOW__API_AUTH__JWT_SECRET": "of this test only, and as long as it has to be: 64 bytes of it",
        }

    def airflow(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.programs / "airflow"), *arguments], cwd=self.folder, env=self.env, text=True, timeout=START_S,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def tested(self, dag: str) -> str:
        """Run the DAG, its tasks one after the other, and give what their commands printed."""
        done = self.airflow("dags", "test", dag)
        lines = [line.partition("] ")[2] for line in done.stdout.splitlines() if "SubprocessHook" in line]
        return "\n".join(line.partition(" [airflow.task.hooks")[0].rstrip() for line in lines) or done.stdout[-5000:]

    def states(self) -> dict[str, tuple[str, int]]:
        """Of every task: how it ended, and how often it was started."""
        found = self.asked("select task_id, state, try_number from task_instance")
        return {name: (state, tries) for name, state, tries in found}

    def python(self, program: str) -> Any:
        """What a program in Airflow's environment prints last, as JSON."""
        done = subprocess.run(
            [str(self.programs / "python"), "-c", dedent(program)], cwd=self.folder, env=self.env, text=True,
            timeout=START_S, capture_output=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    @contextmanager
    def running(self) -> Iterator[None]:
        """While Airflow's scheduler runs, with the server that its tasks report to."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        server = ["api-server", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        started = [self.started(server)]
        try:
            deadline = time.monotonic() + START_S
            while not self.answers():
                assert time.monotonic() < deadline, (self.folder / "api-server.log").read_text()[-3000:]
                time.sleep(0.5)
            started.append(self.started(["scheduler"]))
            yield
        finally:
            for one in started:
                proc.end_tree(one.pid)
                one.wait()

    def started(self, command: list[str]) -> subprocess.Popen[bytes]:
        program = [str(self.programs / "airflow"), *command]
        with (self.folder / f"{command[0]}.log").open("wb") as log:
            return subprocess.Popen(
                program, cwd=self.folder, env=self.env, stdout=log, stderr=log, start_new_session=True
            )

    def answers(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/api/v2/version", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def asked(self, question: str) -> list[tuple[Any, ...]]:
        """What Airflow's database says."""
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as database:
            return database.execute(question).fetchall()

    def rows(self) -> list[Row]:
        with open_store(f"sqlite:///{self.folder}/.scalable/results.db") as store:
            assert store.leases().list() == [], "the place was given back"
            return list(store.rows(Filter(sweep="trial")))

    def computed(self) -> list[str]:
        return (self.folder / "computed.log").read_text(encoding="utf-8").splitlines()
