"""Python stacks of other processes: read by py-spy from outside, or told by faulthandler; and which frame is guilty.

Only names of functions, files and lines are ever read, no arguments and no local variables. Each process is looked at
by itself, because py-spy gives up on a whole tree when one of its processes is no Python.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

MISSING = "py-spy is not installed here, so stacks cannot be read from outside; write  pip install py-spy"
NO_PYTHON = "is no Python"
MOST_FRAMES = 60  # of a thread; the middle of a deeper one is left out
LONGEST_NAME = 120  # characters of a function or file
LONGEST_OUTPUT = 1 << 24  # bytes of JSON; a thousand threads make a tenth of it
PACKAGES = ("site-packages", "dist-packages")
PLUMBING = re.compile(r"/(scalable/worker|joblib|loky|distributed|dask|tblib|cloudpickle)/|^<frozen ")
STANDARD = re.compile(r"/lib(64)?/python\d[\d.]*t?/")
STARTER = re.compile(r"multiprocessing/(resource_tracker|forkserver|spawn)\.py$")


class Origin(Enum):
    """Whose code a frame is of."""

    USER = "user"
    LIBRARY = "library"  # installed packages that compute something
    PLUMBING = "plumbing"  # the standard library and what carries calls between processes: others wait in it


@dataclass(frozen=True, slots=True)
class Frame:
    name: str
    file: str
    """As short as it is clear: from its package on."""
    line: int
    origin: Origin

    @classmethod
    def of(cls, name: str, file: str, line: int) -> Frame:
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
    frames: tuple[Frame, ...]
    """The innermost first."""

    @property
    def own(self) -> tuple[Frame, ...]:
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
        """Whether it is inside of anybody's work, and not a pool's process that waits for some."""
        return any(frame.origin is not Origin.PLUMBING for frame in self.own)

    def place(self) -> str:
        """Where it is, in half a sentence; who called that is the nearest code of the user's own."""
        if not self.frames:
            return ""
        inner = self.frames[0]
        said = f"{inner.name} in {inner.file}:{inner.line}"
        if inner.origin is Origin.USER:
            return said
        for frames in (self.own, self.frames):
            for wanted in (Origin.USER, Origin.LIBRARY):
                for frame in frames[1:]:
                    if frame.origin is wanted:
                        return f"{said}, called from {frame.file}:{frame.line} ({frame.name})"
        return said


class StackError(Exception):
    """Why a stack could not be read, in words."""


def py_spy() -> str | None:
    """The program beside this Python, else on the PATH."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.is_file() else shutil.which("py-spy")


async def dump(pid: int, *, pause: bool, within_s: float) -> list[Thread]:
    """The stacks of one process. ``pause`` it for the moment, so that nothing changes while it is read."""
    program = py_spy()
    if program is None:
        raise StackError(MISSING)
    command = [program, "dump", "--pid", str(pid), "--json", "--full-filenames"]
    status, out, err = await run([*command, *(() if pause else ("--nonblocking",))], within_s)
    if status != 0:
        raise StackError(reason(pid, err))
    try:
        return [thread(found) for found in json.loads(out)]
    except (ValueError, KeyError, TypeError):
        raise StackError(f"what py-spy said of process {pid} could not be read") from None


async def run(command: Sequence[str], within_s: float) -> tuple[int, bytes, str]:
    """A program's status and output; killed and told as an error when it takes longer."""
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
    """What py-spy complained about, without its own stack."""
    if "ermission" in complaint or "EPERM" in complaint:
        return f"this user may not look into process {pid} (ptrace is not permitted)"
    if "python version" in complaint or "Failed to find" in complaint:
        return f"process {pid} {NO_PYTHON}"
    lines = [line.strip() for line in complaint.split("Stack backtrace")[0].splitlines() if line.strip()]
    return f"py-spy could not read process {pid}: {' '.join(lines)[:200] or 'it said nothing'}"


def thread(found: dict[str, Any]) -> Thread:
    frames = [Frame.of(str(one["name"]), str(one["filename"]), int(one["line"])) for one in found["frames"]]
    name, number = found.get("thread_name") or "", found.get("os_thread_id")
    pid = int(found["pid"])
    main = number == pid if number else name == "MainThread"
    return Thread(pid, str(name)[:LONGEST_NAME] or str(number or "?"), main, bool(found.get("active")), cut(frames))


def told(pid: int, text: str) -> list[Thread]:
    """The stacks in what faulthandler wrote of one process. It tells of the first thread last."""
    threads: list[tuple[str, list[Frame]]] = []
    for line in text.splitlines():
        if head := re.match(r"(?:Current thread|Thread) (0x\w+)", line):
            threads.append((head[1], []))
        elif threads and (match := re.match(r'\s+File "(.*)", line (\d+) in (.*)', line)):
            threads[-1][1].append(Frame.of(match[3], match[1], int(match[2])))
    last = len(threads) - 1
    return [Thread(pid, name, at == last, False, cut(frames)) for at, (name, frames) in enumerate(threads)]


def cut(frames: list[Frame]) -> tuple[Frame, ...]:
    outer = MOST_FRAMES // 3
    return tuple(frames if len(frames) <= MOST_FRAMES else frames[: MOST_FRAMES - outer] + frames[-outer:])


def origin(file: str) -> Origin:
    if PLUMBING.search(file):
        return Origin.PLUMBING
    if any(f"/{name}/" in file for name in PACKAGES):
        return Origin.LIBRARY
    return Origin.PLUMBING if STANDARD.search(file) else Origin.USER


def short(file: str) -> str:
    """A file's path from its package on."""
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
