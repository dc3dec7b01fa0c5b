"""Processes as Linux shows them from outside: memory, CPU, state, descendants; and how to end all of them.

``end_tree`` first stops every process it finds, so that none can fork away while it looks, then kills them all. What
has left the tree (a daemon whose parents have ended) is found by an environment variable that only the tree's
processes have. A process is always meant by its number together with its start, because numbers are used again.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from io import FileIO
from pathlib import Path
from typing import NamedTuple

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
STOP_WITHIN_S = 2.0  # to stop all of a tree; then it is killed as far as it is known
AT_REST_S = 0.1  # how long a process may be busy in the kernel (a vfork, a disk) before it counts as stopped
END_WITHIN_S = 10.0  # until none of those killed is alive; freeing much memory takes seconds
POLL_S = 0.002
RESET_PEAK = "5"  # what /proc/self/clear_refs takes to reset the highest resident size, see proc(5)
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
    """Return the process with this number, or None if there is none. Zombies are still there."""
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
    """Return a text that no earlier or later process has, whatever clocks are set to; empty if none can be made."""
    process = look(pid)
    return f"{machine()} {process.started}" if process is not None and machine() else ""


@cache
def machine() -> str:
    """Return a name of this boot of this machine, as far as processes see each other; empty if none can be made."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def pids() -> Iterator[int]:
    """Yield the numbers of all processes, last those that began during the search; some come twice."""
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
    """Return whether a number is that of a process: threads have numbers too, and a folder in /proc."""
    with suppress(OSError):
        return f"\nTgid:\t{pid}\n" in Path(f"/proc/{pid}/status").read_text(errors="replace")
    return False


def tree(pid: int) -> list[int]:
    """Return the process and all its descendants, also those in sessions of their own."""
    pids, at = [pid], 0
    while at < len(pids):
        pids += children(pids[at])
        at += 1
    return pids


def children(pid: int) -> list[int]:
    pids: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208, three times as fast, ten times a second
            with suppress(OSError):
                pids += map(int, content(f"/proc/{pid}/task/{thread}/children").split())
    return pids


def content(file: str) -> bytes:
    """Read a file in /proc. This happens ten times a second for every run, so without the layers of ``open``."""
    with FileIO(file) as raw:
        return raw.readall()


def lines(file: str | Path) -> list[str]:
    """Return the lines of a file in /proc or /sys; none if it cannot be read."""
    try:
        return content(str(file)).decode(errors="replace").splitlines()
    except OSError:
        return []


def figure(file: str, name: str) -> int | None:
    """Return the number after a name in a file such as /proc/meminfo, in bytes where it is in kB; None without one."""
    for line in lines(file):
        if line.startswith((f"{name}:", f"{name} ")):
            number, *unit = line[len(name) + 1 :].split()
            return int(number) * (1024 if unit == ["kB"] else 1)
    return None


def peak_since_reset() -> int | None:
    """Return the highest resident size of this process in bytes since ``reset_peak``; None where nobody knows."""
    return figure("/proc/self/status", "VmHWM")


def reset_peak() -> bool:
    """Let the highest resident size be measured anew; return whether that is permitted, which some sandboxes do not."""
    try:
        Path("/proc/self/clear_refs").write_text(RESET_PEAK)
    except OSError:
        return False
    return True


class Mount(NamedTuple):
    """A mounted file system."""

    root: str
    """The part of it that is mounted."""
    point: str
    kind: str
    options: str


def mounts() -> list[Mount]:
    """Return the file systems that this process sees, in the order they were mounted."""
    seen = []
    for line in lines("/proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if len(fields) > 4 and kinds:
            point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
            seen.append(Mount(fields[3], point, kinds[0], kinds[2] if len(kinds) > 2 else ""))
    return seen


def resident(pid: int) -> int:
    """Return the bytes in memory, 0 for a process that is gone."""
    try:
        return int(content(f"/proc/{pid}/statm").split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def tree_resident(pid: int) -> int:
    return sum(map(resident, tree(pid)))


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and its ended children, 0 for one that is gone."""
    process = look(pid)
    return process.cpu_s if process is not None else 0.0


def exists(pid: int) -> bool:
    """Return whether there is a process with this number, as far as a signal tells: also where there is no /proc."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def alive(pid: int) -> bool:
    """Return whether a process exists and is more than a zombie."""
    process = look(pid)
    return process is not None and process.alive


def state_of(pid: int) -> str:
    """Return what a process is doing, in words; "gone" if there is none."""
    process = look(pid)
    return STATES.get(process.state, process.state) if process is not None else "gone"


def marked(name: str, value: str) -> list[int]:
    """Return this user's living processes that have a variable of this value, or descend from one that does."""
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
        hunt.wait(lambda process: not process.alive, until)
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
        self.stopped: dict[int, Process] = {}
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
            new = sum(1 for process in self.members() if self.stop(process))
            if not new and rested:
                return
            if not new:
                self.wait(lambda process: process.state in "TtZX", min(until, time.monotonic() + AT_REST_S))
            rested = not new

    def stop(self, process: Process) -> bool:
        """Stop a process; return whether that is the first time. It stops when it comes back from the kernel."""
        if self.known(self.stopped, process):
            return False
        self.stopped[process.pid] = process
        with suppress(PermissionError):
            send(process, signal.SIGSTOP)
        return True

    def kill_all(self) -> bool:
        """Kill whoever is alive; whether anybody was."""
        any_killed = False
        for process in self.members():
            try:
                if send(process, signal.SIGKILL):
                    self.killed[process.pid] = process
                    any_killed = True
            except PermissionError:  # it has become another user's
                self.spared.add(process.pid)
        return any_killed

    def wait(self, done: Callable[[Process], bool], until: float) -> None:
        for process in [process for pid, process in self.inside.items() if pid not in self.spared]:
            while (now := same(process)) is not None and not done(now) and time.monotonic() < until:
                time.sleep(POLL_S)

    def members(self) -> Iterator[Process]:
        """Yield who is alive and in the tree, in the session or has the mark, each as soon as it is seen."""
        for pid in pids():
            process = look(pid)
            if process is None or pid in self.spared or not self.belongs(process):
                continue
            self.inside[pid] = process
            if process.alive:
                yield process

    def belongs(self, process: Process) -> bool:
        if self.known(self.inside, process) or process.session == self.session:
            return True
        if process.parent in self.inside and same(self.inside[process.parent]) is not None:
            return True
        if self.mark is None or self.known(self.outside, process):
            return False
        if has_mark(process.pid, self.mark):
            return True
        self.outside[process.pid] = process
        return False

    def known(self, these: dict[int, Process], process: Process) -> bool:
        return process.pid in these and these[process.pid].started == process.started

    def collect(self) -> None:
        """Reap those that became our own children by the death of their parents; nobody else would."""
        for pid, process in self.killed.items():
            adopted = pid not in self.own or process.session not in (pid, os.getsid(0))
            if pid != self.root and adopted:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def same(process: Process) -> Process | None:
    """Return the same process as it is now, or None if it is gone."""
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
    """Return this process and those it descends from, which are never ended."""
    pids, at = {os.getpid()}, look(os.getpid())
    while at is not None and at.parent > 0:
        pids.add(at.parent)
        at = look(at.parent)
    return pids


if __name__ == "__main__":  # by itself, with no more than the standard library: end all that have a mark
    import sys

    end_tree(0, (sys.argv[1], sys.argv[2]))
