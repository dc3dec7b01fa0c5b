"""Records of detached drivers: what was started where, for whoever looks for it from another machine.

``scalable run --detach`` makes a folder in ``.scalable/drivers`` with ``driver.json`` and the driver's own output,
``driver.log``. The record names the batch job, the unit or the process; the driver adds its run as soon as it has one,
and its successor when its walltime ends.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scalable import proc
from scalable.errors import UsageError
from scalable.observe.fields import mapping, number, text
from scalable.observe.files import append_private, listing, make_private, write_beside
from scalable.observe.folders import RunFolder, read_json, state_file
from scalable.observe.journal import jsonable
from scalable.observe.liveness import is_there

NAME = re.compile(r"driver-\d{8}T\d{6}Z-[0-9a-f]{6}")
SLURM, SYSTEMD, PROCESS = "slurm", "systemd", "process"
LOOKED_AT = 50  # of the latest records


@dataclass(frozen=True, slots=True)
class DriverFolder:
    """The folder of one detached driver."""

    path: Path

    @classmethod
    def create(cls, base: Path | str | None = None) -> DriverFolder:
        """Make the folder of a driver that is started now."""
        return cls.create_in(state_file("drivers", base).absolute())

    @classmethod
    def create_in(cls, drivers: Path) -> DriverFolder:
        drivers.mkdir(parents=True, exist_ok=True)
        folder = cls(drivers / f"driver-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}")
        make_private(folder.path)
        os.close(append_private(folder.log))  # Slurm would make it readable for all
        return folder

    @classmethod
    def all(cls, base: Path | str | None = None) -> list[DriverFolder]:
        """Return the latest drivers, the newest first."""
        drivers = state_file("drivers", base).absolute()
        names = sorted(name for name in listing(drivers) if NAME.fullmatch(name))
        return [cls(drivers / name) for name in reversed(names[-LOOKED_AT:])]

    @classmethod
    def find(cls, driver_id: str, base: Path | str | None = None) -> DriverFolder:
        for folder in cls.all(base):
            if folder.id == driver_id:
                return folder
        known = ", ".join(folder.id for folder in cls.all(base)[:5]) or "none"
        raise UsageError(f"driver {driver_id!r} is not recorded; the latest: {known}")

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def log(self) -> Path:
        """The file of what the driver itself printed."""
        return self.path / "driver.log"

    def facts(self) -> dict[str, Any]:
        return read_json(self.path / "driver.json")

    def write(self, **facts: Any) -> None:
        """Add to what is known of the driver."""
        content = jsonable({**self.facts(), **facts})
        write_beside(self.path / "driver.json", json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    # What became of it

    @property
    def job(self) -> str:
        """The batch job; empty for a driver that is none."""
        return text(self.facts().get("job"))

    @property
    def run_id(self) -> str:
        """The run it drives; empty while it has none."""
        return text(self.facts().get("run_id"))

    @property
    def over(self) -> bool:
        """True if it told its end, or was cancelled before it began."""
        return number(self.facts().get("ended")) is not None

    @property
    def alive(self) -> bool | None:
        """True if its process is on this machine; None if that cannot be known from here."""
        facts = self.facts()
        pid = number(facts.get("pid"))
        if pid is None or text(facts.get("host")) != socket.gethostname():
            return None
        return is_there(int(pid), number(facts.get("t")), text(facts.get("process")))

    def began(self, pid: int | None = None) -> None:
        """Note which process of this machine is the driver: this one, or another."""
        pid = pid or os.getpid()
        self.write(pid=pid, process=proc.identity(pid), host=socket.gethostname(), t=time.time(), ended=None)

    def drives(self, run: RunFolder) -> dict[str, Any]:
        """Note the run of the driver, show its output among the run's logs, and return what ``run.json`` says of it."""
        self.write(run_id=run.run_id)
        with suppress(OSError):  # another file system, or one without links: scalable logs --driver  shows it, too
            os.link(self.log, run.logs / "driver.log")
        return {"id": self.id, **{name: self.facts().get(name) for name in ("kind", "job", "unit")}}

    def ended(self, failed: str = "") -> None:
        """Note its end, and why it failed if it did."""
        self.write(ended=time.time(), failed=failed)


def driver_of(run: RunFolder) -> Mapping[str, Any]:
    """Return what a run's own record says of its detached driver; nothing if it has none."""
    return mapping(run.facts().get("driver"))


def waiting(base: Path | str | None = None) -> list[DriverFolder]:
    """Return drivers that have neither a run nor an end, as far as their records say."""
    return [folder for folder in DriverFolder.all(base) if not (folder.over or folder.run_id or folder.alive is False)]
