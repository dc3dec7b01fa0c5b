"""Python stacks of other processes, seen from outside; which frame is guilty; and flame graphs.

Only names of functions, files and lines are ever read, no arguments and no local variables. Each process is looked at
by itself, because py-spy gives up on a whole tree when one of its processes is no Python.

Stacks are read by py-spy, or told by faulthandler: SIGUSR1 makes a process write its own to a file it was given before.
Works where py-spy is not permitted, and while C code holds the interpreter lock. The signal goes only to processes that
handle it and hold the file open: others would die of it, or understand something else. A flame graph is taken without
pausing the process.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from scalable import proc
from scalable.errors import ScalableError
from scalable.observe.redact import redact_text

MISSING = "py-spy is not installed here, so stacks cannot be read from outside; write  pip install py-spy"
NO_PYTHON = "is no Python"
MOST_FRAMES = 60  # of a thread; the middle of a deeper one is left out
LONGEST_NAME = 120  # characters of a function or file
LONGEST_OUTPUT = 1 << 24  # bytes of JSON; a thousand threads make a tenth of it
PACKAGES = ("site-packages", "dist-packages")
PLUMBING = re.compile(r"/(scalable/worker|joblib|loky|distributed|dask|tblib|cloudpickle)/|^<frozen ")
STANDARD = re.compile(r"/lib(64)?/python\d[\d.]*t?/")
TOLD_FRAME = re.compile(r'File "(.*)", line (\d+) in (.*)')
"""A frame as faulthandler writes it."""
STARTER = re.compile(r"multiprocessing/(resource_tracker|forkserver|spawn)\.py$")
FAULTS_WITHIN_S = 1.0  # the first bytes came in 8 ms; a process that is waiting for a disk writes none
SETTLED_S = 0.05  # after so long without another byte it has told all
LONGEST_FAULTS = 20_000  # characters
LONGEST_S = 600.0  # more samples say no more, and someone is waiting
RATE = 100  # samples a second; more cost the process that is looked at
GRACE_S = 20.0  # to start on a loaded machine, and to draw
LARGEST = 1 << 25  # bytes of a picture


class CodeOrigin(Enum):
    """The owner of a frame's code."""

    USER = "user"
    LIBRARY = "library"  # installed packages that compute something
    PLUMBING = "plumbing"  # the standard library and what carries calls between processes: others wait in it


@dataclass(frozen=True, slots=True)
class StackFrame:
    name: str
    file: str
    """As short as it is clear: from its package on."""
    line: int
    origin: CodeOrigin

    @classmethod
    def of(cls, name: str, file: str, line: int) -> StackFrame:
        return cls(name[:LONGEST_NAME], short(file)[-LONGEST_NAME:], line, origin(file))

    def __str__(self) -> str:
        return f"{self.name} ({self.file}:{self.line})"


@dataclass(frozen=True, slots=True)
class Thread:
    pid: int
    name: str
    main: bool
    active: bool
    """It used a CPU when it was looked at."""
    frames: tuple[StackFrame, ...]
    """The innermost first."""

    @property
    def own(self) -> tuple[StackFrame, ...]:
        """The frames below which a multiprocessing child started.

        Those further out are its parent's, which it was forked with, or the ``python -c`` that multiprocessing wrote.
        """
        for at, frame in enumerate(self.frames):
            if frame.name.endswith("_bootstrap") and frame.file.endswith("multiprocessing/process.py"):
                return self.frames[:at]
            if at and frame.file == "<string>" and STARTER.search(self.frames[at - 1].file):
                return self.frames[:at]
        return self.frames

    @property
    def works(self) -> bool:
        """True inside of anybody's work, and not in a pool's process that waits for some."""
        return any(frame.origin is not CodeOrigin.PLUMBING for frame in self.own)

    def place(self) -> str:
        """Return where it is, in half a sentence, with the nearest code of the user's own that called that."""
        if not self.frames:
            return ""
        inner = self.frames[0]
        where = f"{inner.name} in {inner.file}:{inner.line}"
        if inner.origin is CodeOrigin.USER:
            return where
        for frames in (self.own, self.frames):
            for wanted in (CodeOrigin.USER, CodeOrigin.LIBRARY):
                for frame in frames[1:]:
                    if frame.origin is wanted:
                        return f"{where}, called from {frame.file}:{frame.line} ({frame.name})"
        return where


class StackError(Exception):
    """The reason why a stack could not be read, in words."""


def py_spy() -> str | None:
    """Return the program beside this Python, else on the PATH."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.is_file() else shutil.which("py-spy")


async def dump(pid: int, *, pause: bool, within_s: float) -> list[Thread]:
    """Return the stacks of one process. ``pause`` it for the moment, so that nothing changes while it is read."""
    program = py_spy()
    if program is None:
        raise StackError(MISSING)
    command = [program, "dump", "--pid", str(pid), "--json", "--full-filenames"]
    status, out, err = await run([*command, *(() if pause else ("--nonblocking",))], within_s)
    if status != 0:
        raise StackError(reason(pid, err))
    try:
        return [thread(facts) for facts in json.loads(out)]
    except (ValueError, KeyError, TypeError):
        raise StackError(f"what py-spy said of process {pid} could not be read") from None


async def run(command: Sequence[str], within_s: float) -> tuple[int, bytes, str]:
    """Return a program's status and output; kill it and raise when it takes longer."""
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
    except OSError as error:
        raise StackError(f"{command[0]} cannot be run: {error.strerror}") from None
    try:
        out, err = await asyncio.wait_for(process.communicate(), within_s)
    except TimeoutError:
        raise StackError(f"py-spy did not answer within {within_s:.0f} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return process.returncode or 0, out[:LONGEST_OUTPUT], err.decode(errors="replace")


def reason(pid: int, complaint: str) -> str:
    """Return what py-spy complained about, without its own stack."""
    if "ermission" in complaint or "EPERM" in complaint:
        return f"this user may not look into process {pid} (ptrace is not permitted)"
    if "python version" in complaint or "Failed to find" in complaint:
        return f"process {pid} {NO_PYTHON}"
    lines = [line.strip() for line in complaint.split("Stack backtrace")[0].splitlines() if line.strip()]
    return f"py-spy could not read process {pid}: {' '.join(lines)[:200] or 'it said nothing'}"


def thread(facts: dict[str, Any]) -> Thread:
    frames = [
        StackFrame.of(str(frame["name"]), str(frame["filename"]), int(frame["line"])) for frame in facts["frames"]
    ]
    name, number = facts.get("thread_name") or "", facts.get("os_thread_id")
    pid = int(facts["pid"])
    main = number == pid if number else name == "MainThread"
    return Thread(pid, str(name)[:LONGEST_NAME] or str(number or "?"), main, bool(facts.get("active")), cut(frames))


def from_faulthandler(pid: int, text: str) -> list[Thread]:
    """Return the stacks that faulthandler wrote of one process. It tells of the first thread last."""
    threads: list[tuple[str, list[StackFrame]]] = []
    for line in text.splitlines():
        if head := re.match(r"(?:Current thread|Thread) (0x\w+)", line):
            threads.append((head[1], []))
        elif threads and (match := TOLD_FRAME.search(line)):
            threads[-1][1].append(StackFrame.of(match[3], match[1], int(match[2])))
    last = len(threads) - 1
    return [Thread(pid, name, at == last, False, cut(frames)) for at, (name, frames) in enumerate(threads)]


def place_of(frame: re.Match[str]) -> str:
    """Return where a frame that faulthandler wrote is, in short."""
    return f"{frame[3]} ({'/'.join(Path(frame[1]).parts[-2:])}:{frame[2]})"


def cut(frames: list[StackFrame]) -> tuple[StackFrame, ...]:
    outer = MOST_FRAMES // 3
    return tuple(frames if len(frames) <= MOST_FRAMES else frames[: MOST_FRAMES - outer] + frames[-outer:])


def origin(file: str) -> CodeOrigin:
    if PLUMBING.search(file):
        return CodeOrigin.PLUMBING
    if any(f"/{name}/" in file for name in PACKAGES):
        return CodeOrigin.LIBRARY
    return CodeOrigin.PLUMBING if STANDARD.search(file) else CodeOrigin.USER


def short(file: str) -> str:
    """Return a file's path from its package on."""
    for name in PACKAGES:
        if f"/{name}/" in file:
            return file.rpartition(f"/{name}/")[2]
    if match := STANDARD.search(file):
        return file[match.end() :]
    path = Path(file)
    first = path.parent
    with suppress(OSError):
        while (first / "__init__.py").is_file() and first != first.parent:
            first = first.parent
        return str(path.relative_to(first))
    return path.name


async def ask_faulthandler(pids: Iterable[int], file: Path, until: float) -> dict[int, str]:
    """Ask processes that registered faulthandler with this file for their stacks, one at a time."""
    texts = {}
    for pid in pids:
        if time.monotonic() < until and proc.state_of(pid) in ("running", "waiting") and listens(pid, file):
            before = size_of(file)
            with suppress(OSError):
                os.kill(pid, signal.SIGUSR1)
                if text := await growth(file, before, min(until, time.monotonic() + FAULTS_WITHIN_S)):
                    texts[pid] = text
    return texts


def listens(pid: int, file: Path) -> bool:
    """Return whether SIGUSR1 makes a process write to this file. Others it would kill, or tell something else."""
    with suppress(OSError, StopIteration, ValueError):
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        caught = int(next(line for line in status if line.startswith("SigCgt:")).split()[1], 16)
        if not caught >> (signal.SIGUSR1 - 1) & 1:
            return False
        meant = file.stat()
        return any(same_file(meant, entry) for entry in Path(f"/proc/{pid}/fd").iterdir())
    return False


def same_file(meant: os.stat_result, path: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(meant, path.stat())
    return False


async def growth(file: Path, before: int, until: float) -> str:
    """Return what is appended to a file, once no more comes."""
    size, since = before, time.monotonic()
    while time.monotonic() < until and (size == before or time.monotonic() - since < SETTLED_S):
        await asyncio.sleep(0.005)
        if (now := size_of(file)) != size:
            size, since = now, time.monotonic()
    with file.open("rb") as opened:
        opened.seek(before)
        return opened.read(LONGEST_FAULTS).decode(errors="replace")


def size_of(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


async def flame_graph(pid: int, seconds: float) -> bytes:
    """Return an SVG of what the process and its children did in the next seconds; waiting is not in it.

    A process that ends meanwhile gives a graph of what it did until then.
    """
    if not 0 < seconds <= LONGEST_S:
        raise ScalableError(f"a profile takes up to {LONGEST_S:.0f} s, e.g. 10")
    program = py_spy()
    if program is None:
        raise ScalableError(MISSING)
    if not proc.alive(pid):
        raise ScalableError(f"process {pid} has ended")
    whole = math.ceil(seconds)
    with tempfile.TemporaryDirectory(prefix="scalable-profile-") as folder:
        picture = Path(folder) / "flames.svg"
        command = [program, "record", "--pid", str(pid), "--subprocesses", "--nonblocking", "--duration", str(whole)]
        command += ["--rate", str(RATE), "--format", "flamegraph", "--output", str(picture)]
        try:
            status, out, complaint = await run(command, whole + GRACE_S)
        except StackError as error:
            raise ScalableError(str(error)) from None
        drawn = picture.read_bytes() if picture.exists() and picture.stat().st_size <= LARGEST else b""
    if status == 0 and b"<svg" in drawn:
        return redact_text(drawn.decode(errors="replace")).encode()  # frames of processes carry their command lines
    raise ScalableError(why_not(pid, whole, out.decode(errors="replace") + complaint))


def why_not(pid: int, seconds: int, complaint: str) -> str:
    if not proc.alive(pid):
        return f"process {pid} ended before anything was seen of it"
    if "No stack counts" in complaint:
        return f"process {pid} only waited for {seconds} s; its stacks say what for"
    return reason(pid, complaint)
