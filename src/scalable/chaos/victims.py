"""The processes of one run on this machine: its driver, its workers, and the runners beside them.

Nothing else may ever be touched. Workers are those the run's journal says have joined, by process id and machine;
runners are their descendants that carry the mark every runner is started with. A process is remembered with the moment
it began, so that another one with the same number is not taken for it.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from scalable import proc
from scalable.errors import ScalableError
from scalable.mpi import RUNNER_MARK
from scalable.observe import RunFolder
from scalable.observe.fields import number, text
from scalable.observe.liveness import Follower, is_running

CLOCKS_S = 5.0  # by so much a process may seem to have begun after the run says it was there
LOOPBACK = {"127.0.0.1", "::1"}  # means the machine the driver is on


@dataclass(frozen=True, slots=True)
class Victim:
    """A process of the run."""

    process: proc.Process
    """As it was seen; by its number and its start it is known again."""
    kind: str
    """``driver``, ``worker`` or ``runner``."""
    worker: str
    """The name of the worker; of a runner, the one it belongs to."""

    def __str__(self) -> str:
        of = f" of {self.worker}" if self.kind == "runner" else f" {self.worker}" if self.worker else ""
        return f"{self.kind}{of} (process {self.pid})"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def there(self) -> bool:
        now = proc.same(self.process)
        return now is not None and now.alive


class Processes:
    """Looks again at every call; of the journal it reads only what is new."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.follower = Follower(run)

    def driver(self) -> Victim:
        """Return the process that opened the session, if it is on this machine and alive."""
        self.check_it_runs()
        process = self.own_driver()
        if process is None:
            host = text(self.run.facts().get("host")) or "an unknown machine"
            raise NoVictimError(f"{self.run.run_id} is driven from {host}; call this there")
        return Victim(process, "driver", "")

    def check_it_runs(self) -> None:
        if not is_running(self.run):
            raise NoVictimError(f"{self.run.run_id} is over; faults need a run that is running")

    def own_driver(self) -> proc.Process | None:
        """Return the driver, unless it is elsewhere."""
        facts = self.run.facts()
        pid = number(facts.get("pid"))
        on_this_host = text(facts.get("host")) == socket.gethostname()
        return proc.look(int(pid)) if on_this_host and pid is not None else None

    def workers(self) -> list[Victim]:
        """Return worker processes, by name. Those that share the driver's process are not among them."""
        victims, elsewhere = self.joined()
        own = self.own_driver()
        apart = [victim for victim in victims if own is None or victim.pid != own.pid]
        if not apart:
            raise NoVictimError(f"{self.run.run_id} has no worker process here{because(victims, elsewhere)}")
        return apart

    def runners(self) -> list[Victim]:
        """Return runner processes, in the order of their workers and ages."""
        workers, elsewhere = self.joined()
        running = [runner for worker in one_per_process(workers) for runner in runners_of(worker)]
        if not running:
            why = because([], elsewhere) or "; they start with the first guarded work"
            raise NoVictimError(f"{self.run.run_id} has no runner process here{why}")
        return running

    def joined(self) -> tuple[list[Victim], list[str]]:
        """Return live workers on this machine, and the hosts of others."""
        self.check_it_runs()
        self.follower.look()
        addresses = own_addresses() if self.own_driver() is not None else own_addresses() - LOOPBACK
        victims, elsewhere = [], set()
        for name, worker in sorted(self.follower.view.fleet.workers.items()):
            if worker.joined is None or worker.pid is None:
                continue
            if worker.host not in addresses:
                elsewhere.add(worker.host)
            elif (process := proc.look(worker.pid)) and process.alive and since(process) < worker.contact + CLOCKS_S:
                victims.append(Victim(process, "worker", name))
        return victims, sorted(elsewhere)


def choose(victims: Sequence[Victim], chance: random.Random, worker: str | None = None) -> Victim:
    """Choose a victim at random, or one of the worker that is named."""
    among = [victim for victim in victims if worker in (None, victim.worker)]
    if not among:
        known = ", ".join(dict.fromkeys(victim.worker for victim in victims))
        raise NoVictimError(f"worker {worker!r} has no {victims[0].kind} here; those that have: {known}")
    return chance.choice(among)


def one_per_process(workers: Iterable[Victim]) -> Iterable[Victim]:
    """Return one worker of each process: workers that are threads share it, and with it their runners."""
    return {worker.pid: worker for worker in workers}.values()


def runners_of(worker: Victim) -> list[Victim]:
    """Return the topmost descendants that carry a mark; those below them belong to the work itself."""
    marks = {pid: mark_of(pid) for pid in proc.tree(worker.pid)[1:]}
    first: dict[str, int] = {}
    for pid, mark in marks.items():  # parents come before their children
        if mark and mark not in first:
            first[mark] = pid
    seen = [process for pid in first.values() if (process := proc.look(pid)) and process.alive]
    return [Victim(process, "runner", worker.worker) for process in seen]


def mark_of(pid: int) -> str:
    return environment(pid).get(RUNNER_MARK, "")


def environment(pid: int) -> dict[str, str]:
    """Return the variables a process was started with; none if it is gone or another user's."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    pairs = (entry.partition("=") for entry in variables.split("\0"))
    return {name: value for name, equals, value in pairs if equals}


def since(process: proc.Process) -> float:
    """Return when a process began, by the clock on the wall."""
    return process.started / proc.TICKS + psutil.boot_time()


def own_addresses() -> set[str]:
    """Return the addresses by which others reach this machine, and by which it reaches itself."""
    addresses = [address for all_ in psutil.net_if_addrs().values() for address in all_]
    network = (socket.AF_INET, socket.AF_INET6)
    return {address.address.partition("%")[0] for address in addresses if address.family in network}


def because(threads: Sequence[Victim], elsewhere: Sequence[str]) -> str:
    if threads:
        return ": its workers are threads of the driver; write processes: true in the target"
    return f": they are on {', '.join(elsewhere)}; call this there" if elsewhere else ""


def as_victim(process: int | Victim) -> Victim:
    """Return a process by its number, for callers that started it themselves."""
    if isinstance(process, Victim):
        return process
    looked = proc.look(process)
    if process <= 1 or looked is None or not looked.alive:
        raise ChaosError(f"there is no process {process}")
    return Victim(looked, "process", "")


class ChaosError(ScalableError):
    """A fault that was not made; the message says why and what to do instead."""


class NoVictimError(ChaosError):
    """There is nothing on this machine, or no longer, that the fault could be made with; a moment later may differ."""
