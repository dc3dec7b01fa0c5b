"""The fork guard: a process with other threads is not forked unnoticed.

A child has a copy of every lock, but only the thread that forked, so whatever another thread held stays locked in it
for good. Python tells an audit hook of every ``os.fork`` before anything happens, and the hook can refuse. It is not
told of a fork in C code; ``subprocess`` and multiprocessing's ``spawn`` and ``forkserver`` start a new program and are
not concerned. A hook cannot be removed, and costs other events a comparison.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any

from scalable.errors import ScalableError, UsageError
from scalable.worker.runner import stamp
from scalable.worker.runner.environment import GRPC_VARIABLES, THREAD_VARIABLES

POLICIES = ("deny", "warn", "allow")
ENDING_S = 0.02  # a thread that was joined is still listed by the kernel for some microseconds
STARTERS = frozenset({"os", "pty", "multiprocessing", "concurrent"})  # they fork for whoever called them
REPORTED = ("numpy", "xgboost", "grpc", "sklearn", "cleanlab")  # the libraries whose versions decide about forks


class ForkDenied(ScalableError, RuntimeError):  # noqa: N818 - what happened, not only that something did
    """A fork of a process that has other threads; the message names the line that asked for it."""


@dataclass(frozen=True, slots=True)
class ForkReport:
    """A fork with other threads, as it is reported."""

    policy: str
    file: str
    line: int
    function: str
    threads: int
    """Native threads of the process, the forking one included."""
    allowed: bool

    def __str__(self) -> str:
        did = "forked" if self.allowed else "wants to fork"
        return f"{self.file}:{self.line} ({self.function}) {did} a process with {self.threads} native threads"


@dataclass(frozen=True, slots=True)
class ForkGuard:
    policy: str
    exceptions: tuple[str, ...]
    on_fork: Callable[[dict[str, Any]], object]
    process: int
    busy: set[int]
    """Threads that are being judged: what the report itself does is not reported."""

    def judge(self, frame: FrameType | None) -> None:
        threads = native_threads()
        if threads == 1 or (known_threads() == 1 and (threads := settled()) == 1):
            return
        stack = list(frames(frame))
        site = call_site(stack)
        excepted = any(within(module_of(frame), self.exceptions) for frame in stack)
        fork = ForkReport(
            policy=self.policy,
            file=site.f_code.co_filename if site else "?",
            line=site.f_lineno if site else 0,
            function=site.f_code.co_qualname if site else "?",
            threads=threads,
            allowed=excepted or self.policy != "deny",
        )
        self.report(fork, aloud=not excepted and self.policy == "warn")
        if not fork.allowed:
            raise ForkDenied(f"{fork}; {REMEDY}")

    def report(self, fork: ForkReport, *, aloud: bool) -> None:
        """Count it, say it, and tell the supervisor; a process that was forked before has no line to it."""
        thread = threading.get_ident()
        if thread in self.busy:
            return
        self.busy.add(thread)
        try:
            page = stamp.attached()
            if page is not None:
                page.forked()
            if aloud:
                with suppress(OSError):
                    os.write(2, f"scalable: {fork}; it may hang; {REMEDY}\n".encode(errors="replace"))
            if os.getpid() == self.process:
                with suppress(Exception):  # whoever listens, the judgement stands
                    self.on_fork(asdict(fork))
        finally:
            self.busy.discard(thread)


REMEDY = (
    "what another thread has locked stays locked in the child. Do it in this process (n_jobs=1, num_workers=0), "
    'start a new program (subprocess, multiprocessing.get_context("spawn") or "forkserver"), or accept the risk in '
    "the manifest: policies: {fork: {policy: deny, allow: [the.module]}}"
)
_installed: ForkGuard | None = None


def nobody(facts: dict[str, Any]) -> None:
    """Report to nobody."""


def install(policy: str, allow: Sequence[str] = (), on_fork: Callable[[dict[str, Any]], object] = nobody) -> None:
    """Guard this process for as long as it lives. ``allow`` names modules whose forks are let through, and counted."""
    global _installed
    if policy not in POLICIES:
        raise UsageError(f"{policy!r} is no fork policy; choose one of {', '.join(POLICIES)}")
    if _installed is not None:
        raise UsageError(f"the fork guard is in place already, with the policy {_installed.policy}, and cannot change")
    guard = ForkGuard(policy, tuple(allow), on_fork, os.getpid(), set())

    def hook(event: str, arguments: object) -> None:  # a plain function: a method costs each event ten times as much
        if event == "os.fork" or event == "os.forkpty":
            guard.judge(sys._getframe(1))

    if policy != "allow":
        sys.addaudithook(hook)
    _installed = guard


def protections() -> dict[str, Any]:
    """Return what protects this process now; versions only of what is imported already."""
    modules = {name: sys.modules[name] for name in REPORTED if name in sys.modules}
    return {
        "guard": _installed.policy if _installed else None,
        "allow": list(_installed.exceptions) if _installed else [],
        "grpc": present(GRPC_VARIABLES),
        "threads": present(THREAD_VARIABLES),
        "native_threads": native_threads(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "scalable": sys.modules["scalable"].__version__,
        "versions": {name: str(getattr(module, "__version__", "?")) for name, module in modules.items()},
    }


def present(names: Collection[str]) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


def native_threads() -> int:
    """Count all threads: Python's own list lacks those of C libraries."""
    try:
        return len(os.listdir("/proc/self/task"))  # noqa: PTH208 - the fastest way
    except OSError:  # no /proc
        return known_threads()


def known_threads() -> int:
    return len(sys._current_frames())


def settled() -> int:
    """Return the native threads that remain after those that are just ending have ended."""
    deadline = time.monotonic() + ENDING_S
    while (threads := native_threads()) > 1 and time.monotonic() < deadline:
        time.sleep(0.001)
    return threads


def frames(frame: FrameType | None) -> Sequence[FrameType]:
    stack = []
    while frame is not None:
        stack.append(frame)
        frame = frame.f_back
    return stack


def call_site(stack: Sequence[FrameType]) -> FrameType | None:
    """Return the innermost frame of code that is not there to fork for others."""
    for frame in stack:
        if module_of(frame).partition(".")[0] not in STARTERS:
            return frame
    return stack[0] if stack else None


def module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def within(module: str, packages: Sequence[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)
