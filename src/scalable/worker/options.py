"""The command line of a worker, written by launchers and read by ``scalable.worker.main``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from scalable.walltime import GRACE_S as GRACE_S

CONNECT_WITHIN_S = 60.0  # a worker that cannot reach its scheduler ends after this, so that nothing is left behind

CANNOT_CONNECT = 71
"""Exit status: the scheduler was not reached."""
CANNOT_START = 72
"""Exit status: the worker's own surroundings are wrong: a preload script, a folder, an interface."""
CANNOT_READ = 73
"""Exit status: the driver sent what cannot be read here, mostly code of a module that is not here."""
LOST_SCHEDULER = 74
"""Exit status: the scheduler was there and is not any more, or has given the worker up."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    scheduler: str
    name: str
    resources: dict[str, float]
    threads: int = 1
    memory: int | None = None
    """Bytes, for Dask's own bookkeeping; the limit itself is enforced from outside."""
    handout: str | None = None
    """A folder with what the driver hands to its workers: certificates, and what their code should be."""
    interface: str | None = None
    host: str | None = None
    """Where it listens, if not everywhere: without certificates whoever reaches it can have it run anything."""
    folder: str | None = None
    """Where the user's code lies on the worker's machine."""
    preload: str | None = None
    scratch: str | None = None
    note: str | None = None
    """A file for the keys of running tasks, see ``scalable.worker.measures``."""
    connect_within: float = CONNECT_WITHIN_S
    grace: float = GRACE_S
    parent: int | None = None
    """End with this process, whatever it is doing."""

    def arguments(self) -> list[str]:
        """Return what follows ``python -m scalable.worker``."""
        line = [self.scheduler, f"--name={self.name}", f"--threads={self.threads}"]
        line += [f"--resource={tag}={units:g}" for tag, units in self.resources.items()]
        for name in ("memory", "handout", "interface", "host", "folder", "preload", "scratch", "note", "parent"):
            if getattr(self, name) is not None:
                line.append(f"--{name}={getattr(self, name)}")
        return [*line, f"--connect-within={self.connect_within:g}", f"--grace={self.grace:g}"]

    @classmethod
    def parse(cls, arguments: Sequence[str] | None = None) -> WorkerOptions:
        parser = argparse.ArgumentParser(prog="python -m scalable.worker", description="One worker of one kind.")
        parser.add_argument("scheduler")
        parser.add_argument("--name", required=True)
        parser.add_argument("--resource", action="append", default=[], metavar="TAG=UNITS")
        parser.add_argument("--threads", type=int, default=1)
        parser.add_argument("--memory", type=int)
        parser.add_argument("--parent", type=int)
        for name in ("handout", "interface", "host", "folder", "preload", "scratch", "note"):
            parser.add_argument(f"--{name}")
        parser.add_argument("--connect-within", type=float, default=CONNECT_WITHIN_S)
        parser.add_argument("--grace", type=float, default=GRACE_S)
        options = vars(parser.parse_args(arguments))
        pairs = (pair.rpartition("=") for pair in options.pop("resource"))
        return cls(resources={tag: float(units) for tag, _, units in pairs}, **options)
