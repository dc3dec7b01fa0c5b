"""What Linux knows of processes, seen from outside: memory, CPU, state, descendants; and how to end all of them.

``end_tree`` first stops every process it finds, so that none can fork away while it looks, then kills them all. What
has left the tree (a daemon whose parents have ended) is found by an environment variable that only the tree's
processes have. A process is always meant by its number together with its start, because numbers are used again.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from io import FileIO
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
STOP_WITHIN_S = 2.0  # to stop all of a tree; then it is killed as far as it is known
AT_REST_S = 0.1  # how long a process may be busy in the kernel (a vfork, a disk) before it counts as stopped
END_WITHIN_S = 10.0  # until none of those killed is alive; freeing much memory takes seconds
POLL_S = 0.002
STATES = {
    "R": "running",
    "S": "waiting",
    "D": "waiting in the kernel, cannot be interrupted",
    "T": "stopped",
    "t": "stopped by a debugger",
    "Z": "ended, not collected by its parent",
    "X": "ended",
    "I": "idle",
}


@dataclass(frozen=True, slots=True)
class Process:
    """One process as it was when it was looked at."""

    pid: int
    parent: int
    session: int
    state: str
    """The kernel's letter; ``STATES`` has the words."""
    started: int
    """In clock ticks after boot. With the number it means this process and no later one."""
    cpu_s: float
    """Of itself and its ended children."""
    threads: int
    name: str

    @property
    def alive(self) -> bool:
        """More than a zombie. A first thread that has ended while others go on looks like one, but is not."""
        return self.state not in "ZX" or self.threads > 1


def look(pid: int) -> Process | None:
    """The process with this number, nothing if there is none. Zombies are still there."""
    try:
        text = content(f"/proc/{pid}/stat").decode(errors="replace")
        head, _, rest = text.rpartition(")")  # the name may hold blanks and brackets
        fields = rest.split()
        return Process(
            pid,
            parent=int(fields[1]),
            session=int(fields[3]),
            state=fields[0],
            started=int(fields[19]),
            cpu_s=sum(map(int, fields[11:15])) / TICKS,
            threads=int(fields[17]),
            name=head.partition("(")[2],
        )
    except (OSError, ValueError, IndexError):
        return None


def identity(pid: int) -> str:
    """What no earlier or later process has, whatever clocks are set to; empty if that cannot be known."""
    process = look(pid)
    return f"{machine()} {process.started}" if process is not None and machine() else ""


@cache
def machine() -> str:
    """This boot of this machine, as far as its processes see each other; empty if that cannot be known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def pids() -> Iterator[int]:
    """The numbers of all processes, at last those that began while the others were looked at; some come twice."""
    with suppress(OSError):
        latest = latest_number()
        with os.scandir("/proc") as entries:
            for entry in entries:
                if entry.name.isdecimal():
                    yield int(entry.name)
        while (now := latest_number()) > latest:
            yield from filter(is_process, range(latest + 1, now + 1))
            latest = now


def latest_number() -> int:
    return int(Path("/proc/loadavg").read_text().split()[4])


def is_process(pid: int) -> bool:
    """Threads have numbers too, and a folder in /proc that is not listed."""
    with suppress(OSError):
        return f"\nTgid:\t{pid}\n" in Path(f"/proc/{pid}/status").read_text(errors="replace")
    return False


def tree(pid: int) -> list[int]:
    """The process and all its descendants, also those in sessions of their own."""
    found, at = [pid], 0
    while at < len(found):
        found += children(found[at])
        at += 1
    return found


def children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208, three times as fast, ten times a second
            with suppress(OSError):
                found += map(int, content(f"/proc/{pid}/task/{thread}/children").split())
    return found


def content(file: str) -> bytes:
    """Of a file in /proc. Ten times a second for every run, so without the layers of ``open``."""
    with FileIO(file) as raw:
        return raw.readall()


def resident(pid: int) -> int:
    """Bytes in memory, 0 for a process that is gone."""
    try:
        return int(content(f"/proc/{pid}/statm").split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def tree_resident(pid: int) -> int:
    return sum(map(resident, tree(pid)))


def cpu_s(pid: int) -> float:
    """Seconds of CPU a process and its ended children have used, 0 for one that is gone."""
    found = look(pid)
    return found.cpu_s if found is not None else 0.0


def tree_cpu_s(pid: int) -> float:
    return sum(map(cpu_s, tree(pid)))


def alive(pid: int) -> bool:
    """Whether a process exists and is more than a zombie."""
    found = look(pid)
    return found is not None and found.alive


def state_of(pid: int) -> str:
    """What a process is doing, in words; "gone" if there is none."""
    found = look(pid)
    return STATES.get(found.state, found.state) if found is not None else "gone"


def marked(name: str, value: str) -> list[int]:
    """This user's living processes that were started with a variable of this value, or descend from such a one."""
    mark = f"\0{name}={value}\0".encode()
    return sorted({pid for pid in pids() if has_mark(pid, mark) and alive(pid)})


def has_mark(pid: int, mark: bytes) -> bool:
    entry = Path(f"/proc/{pid}")
    try:
        return entry.stat().st_uid == os.geteuid() and mark in b"\0" + (entry / "environ").read_bytes() + b"\0"
    except OSError:
        return False


def kill_tree(pid: int) -> None:
    """Kill a process, its process group and all descendants; what is gone already does not matter."""
    victims = tree(pid)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    kill(victims)


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def end_tree(pid: int, mark: tuple[str, str] | None = None, *, started: int | None = None) -> int:
    """End a process with all its descendants, the rest of its session, and all that have the mark.

    Returns how many it killed, when none of them is alive any more, or after a time if the kernel cannot end one.
    ``mark`` is the name and value of an environment variable. ``started`` (as in ``Process``) makes sure that this
    process is meant and no later one of the same number; a caller that has not yet waited for its own child needs it
    not. Takes some milliseconds, at worst ``STOP_WITHIN_S + END_WITHIN_S``; the caller still waits for its own child.
    """
    hunt = Hunt(pid, mark, started)
    hunt.stop_all(time.monotonic() + STOP_WITHIN_S)
    until = time.monotonic() + END_WITHIN_S
    while hunt.kill_all() and time.monotonic() < until:
        hunt.wait(lambda one: not one.alive, until)
    hunt.collect()
    return len(hunt.killed)


class Hunt:
    """The processes that are to end, as far as they have been seen."""

    def __init__(self, pid: int, mark: tuple[str, str] | None, started: int | None) -> None:
        self.mark = f"\0{mark[0]}={mark[1]}\0".encode() if mark is not None else None
        self.root = pid
        self.spared = ancestors()
        self.own = set(children(os.getpid()))
        self.inside: dict[int, Process] = {}
        self.outside: dict[int, Process] = {}
        """Those without the mark, so that each is asked only once."""
        self.told: dict[int, Process] = {}
        self.killed: dict[int, Process] = {}
        self.session: int | None = None
        """Its members belong to it even if their parents have ended; no later process can have its number then."""
        root = look(pid)
        if pid in self.spared:
            return
        if root is not None and started in (None, root.started):
            self.inside[pid] = root
            self.session = pid if root.session == pid else None
        elif root is None and started is not None:
            self.session = pid

    def stop_all(self, until: float) -> None:
        """Stop processes until no new one appears. Only a look at processes that surely rest proves that."""
        rested = False
        while time.monotonic() < until:
            new = sum(1 for one in self.members() if self.stop(one))
            if not new and rested:
                return
            if not new:
                self.wait(lambda one: one.state in "TtZX", min(until, time.monotonic() + AT_REST_S))
            rested = not new

    def stop(self, one: Process) -> bool:
        """Whether it is told for the first time; it stops when it comes back from the kernel."""
        if self.known(self.told, one):
            return False
        self.told[one.pid] = one
        with suppress(PermissionError):
            send(one, signal.SIGSTOP)
        return True

    def kill_all(self) -> bool:
        """Kill whoever is alive; whether anybody was."""
        found = False
        for one in self.members():
            try:
                if send(one, signal.SIGKILL):
                    self.killed[one.pid] = one
                    found = True
            except PermissionError:  # it has become another user's
                self.spared.add(one.pid)
        return found

    def wait(self, done: Callable[[Process], bool], until: float) -> None:
        for one in [one for pid, one in self.inside.items() if pid not in self.spared]:
            while (now := same(one)) is not None and not done(now) and time.monotonic() < until:
                time.sleep(POLL_S)

    def members(self) -> Iterator[Process]:
        """Who is alive and in the tree, the session or has the mark, each as soon as it is seen."""
        for pid in pids():
            one = look(pid)
            if one is None or pid in self.spared or not self.belongs(one):
                continue
            self.inside[pid] = one
            if one.alive:
                yield one

    def belongs(self, one: Process) -> bool:
        if self.known(self.inside, one) or one.session == self.session:
            return True
        if one.parent in self.inside and same(self.inside[one.parent]) is not None:
            return True
        if self.mark is None or self.known(self.outside, one):
            return False
        if has_mark(one.pid, self.mark):
            return True
        self.outside[one.pid] = one
        return False

    def known(self, these: dict[int, Process], one: Process) -> bool:
        return one.pid in these and these[one.pid].started == one.started

    def collect(self) -> None:
        """Reap those that became our own children by the death of their parents; nobody else would."""
        for pid, one in self.killed.items():
            adopted = pid not in self.own or one.session not in (pid, os.getsid(0))
            if pid != self.root and adopted:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def same(process: Process) -> Process | None:
    """The same process now."""
    now = look(process.pid)
    return now if now is not None and now.started == process.started else None


def send(process: Process, number: signal.Signals) -> bool:
    """Signal this very process; whether it was there. A handle keeps its number from meaning another one meanwhile."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    except (AttributeError, OSError):  # kernels before 5.3, Pythons built for them, too many open files
        handle = None
    try:
        now = same(process)
        if now is None or not now.alive:
            return False
        if handle is not None:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


def ancestors() -> set[int]:
    """This process and those it descends from: they are never ended."""
    found, at = {os.getpid()}, look(os.getpid())
    while at is not None and at.parent > 0:
        found.add(at.parent)
        at = look(at.parent)
    return found


if __name__ == "__main__":  # by itself, with no more than the standard library: end all that have a mark
    import sys

    end_tree(0, (sys.argv[1], sys.argv[2]))
