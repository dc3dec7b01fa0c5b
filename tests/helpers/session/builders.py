"""A project in a folder: its manifest, its code, its sessions, and what they left in their journals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import yaml
from distributed import get_worker

from scalable import proc
from scalable.session.session import ScalableSession
from tests.helpers.waiting import until


@dataclass
class Project:
    folder: Path

    def write(self, **sections: Any) -> Path:
        """A manifest: a local target ``here`` and one component ``demeter`` unless something else is said."""
        manifest: dict[str, Any] = {"version": 1, "project": {"name": "proof"}}
        manifest["targets"] = {"here": {"provider": "local", **sections.pop("target", {})}}
        manifest["components"] = {"demeter": {}}
        path = self.folder / "scalable.yaml"
        path.write_text(yaml.safe_dump({**manifest, **sections}, allow_unicode=True, sort_keys=False), encoding="utf-8")
        return path

    def session(self, **sections: Any) -> ScalableSession:
        return ScalableSession.from_yaml(self.write(**sections))

    def module(self, code: str) -> str:
        """A module of the user's; its name is new, so that no other test's is found instead."""
        name = f"code_{time.time_ns()}"
        (self.folder / f"{name}.py").write_text(dedent(code), encoding="utf-8")
        return name

    def script(self, code: str, name: str = "script.py") -> subprocess.Popen[str]:
        """Run a script of the user's in a process of its own."""
        (self.folder / name).write_text(dedent(code), encoding="utf-8")
        return subprocess.Popen(
            [sys.executable, name],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def runs(self) -> list[Path]:
        return sorted((self.folder / ".scalable" / "runs").glob("run-*"))

    def journal(self, kind: str | None = None, run: int = -1) -> list[dict[str, Any]]:
        """The records of the latest run, or of another, with those that sessions of this process have just written."""
        for session in list(ScalableSession._open):
            if session._journal is not None:
                session._journal.flush()
        runs = self.runs()
        if not runs or not (runs[run] / "journal.jsonl").exists():
            return []
        lines = (runs[run] / "journal.jsonl").read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines]
        return [record for record in records if kind in (None, record["kind"])]

    def workers(self) -> list[int]:
        """Worker processes of all runs that are alive."""
        records = [record for run in range(len(self.runs())) for record in self.journal("worker-started", run)]
        started = [record["job"] or "" for record in records]
        pids = [int(job.removeprefix("process ")) for job in started if job.startswith("process ")]
        return [pid for pid in pids if proc.alive(pid)]

    def ended(self) -> tuple[str, str]:
        """How the latest run ended; the last line of its journal says so."""
        last = self.journal()[-1]
        assert last["kind"] == "ended"
        return last["status"], last["reason"]


def here(*anything: object) -> str:
    """Called on a worker: its name."""
    return str(get_worker().name)


def nap(seconds: float, *anything: object) -> str:
    time.sleep(seconds)
    return here()


def meet(others: Path, count: int, *anything: object) -> str:
    """Called on workers: holds each of them until so many have come, however long they take to start."""
    others.mkdir(exist_ok=True)
    (others / here()).touch()
    assert until(lambda: len(list(others.iterdir())) >= count)
    return here()
