"""What a unit test may not do, and who notices it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

FORBIDDEN = {
    "subprocess.Popen": "started a process",
    "os.posix_spawn": "started a process",
    "os.fork": "forked",
    "os.forkpty": "forked",
    "socket.bind": "opened a port",
}
MOST_SLEEP_S = 0.3  # in all; to yield for some milliseconds is no wait


class Watch:
    """Counts what one test does, by an audit hook and in place of ``time.sleep``."""

    def __init__(self) -> None:
        self.on = False
        self.offences: list[str] = []
        self.slept_s = 0.0
        self.sleep: Callable[[Any], None] = time.sleep
        self.thread = threading.get_ident()
        """That runs the test. Threads that compete back off as often as a busy machine makes them."""

    def begin(self) -> None:
        self.offences, self.slept_s, self.on = [], 0.0, True
        self.thread = threading.get_ident()
        time.sleep = self.counted  # type: ignore[assignment]

    def end(self) -> None:
        time.sleep, self.on = self.sleep, False

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note a forbidden event of the interpreter; called for each audit event."""
        if self.on and event in FORBIDDEN:
            self.offences.append(FORBIDDEN[event])

    def counted(self, seconds: float) -> None:
        if threading.get_ident() == self.thread:
            self.slept_s += seconds
        self.sleep(seconds)

    def offence(self) -> str:
        """Return what the test did that it may not, or nothing."""
        if self.offences:
            return self.offences[0]
        return f"slept {self.slept_s:.1f} s" if self.slept_s > MOST_SLEEP_S else ""
