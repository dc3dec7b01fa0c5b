"""Cleans up after a driver that was killed: a process of its own that waits for the driver's end.

Each line it reads is a command (a JSON list) to run then; the line ``done`` means that nothing is left to clean up. It
knows the end by its input, which closes with the driver, and by its parent, in case a child of the driver keeps that
input open. Commands are tried until they succeed, and once more a little later for what was just being started.
Uses nothing but the standard library, so that it starts at once and takes little memory.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress

LOOK_EVERY_S = 1.0  # at the parent
ANSWER_WITHIN_S = 30.0
DONE_WITHIN_S = 5.0  # it ends in milliseconds
AGAIN_S = 5.0  # after a command that failed, twice as long each time, and before the second round
SELDOM_S = 120.0  # longest pause: a service that is away for minutes is not helped by questions
GIVE_UP_AFTER_S = 3600.0  # jobs that start meanwhile find no scheduler and end by themselves

MARKS = "SCALABLE_"  # what has one of our marks is ended with what it belongs to

LEFT_BEHIND: list[subprocess.Popen[bytes]] = []
"""Those that may outlive this process; Python complains about children that nobody refers to."""


class Reaper:
    """The driver's side."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.commands: set[str] = set()

    def on_death(self, command: list[str]) -> None:
        """Run a command if this process ends without having said ``done``."""
        line = json.dumps(command)
        if self.process is not None and self.process.poll() is not None:  # it was killed; another one takes its place
            self.leave()
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, str(os.getpid())], stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                env=unmarked(os.environ),
            )  # fmt: skip
            for earlier in self.commands:
                self.say(earlier)
        if line not in self.commands:
            self.commands.add(line)
            self.say(line)

    def done(self) -> None:
        """Tell the reaper that nothing is left to clean up."""
        if self.process is not None:
            self.say("done")
            process = self.leave()
            try:
                process.wait(DONE_WITHIN_S)
            except subprocess.TimeoutExpired:  # someone has stopped it; it has nothing to do
                process.kill()
                process.wait()
            LEFT_BEHIND.remove(process)

    def leave(self) -> subprocess.Popen[bytes]:
        """Let it clean up now and outlive this process."""
        assert self.process is not None
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        process, self.process = self.process, None
        LEFT_BEHIND.append(process)
        return process

    def say(self, line: str) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        with suppress(OSError):  # it was killed itself; the next command starts another
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()


def unmarked(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for a process that outlives those it is started by: without our marks."""
    return {name: value for name, value in environment.items() if not name.startswith(MARKS)}


def main(parent: int) -> None:
    lines = read_until_the_end(parent).split(b"\n")
    if b"done" in lines:
        return
    commands = [json.loads(line) for line in lines if line.endswith(b"]")]  # the last line may be torn
    deadline = time.monotonic() + GIVE_UP_AFTER_S
    for _ in range(2):
        left, pause = commands, AGAIN_S
        while (left := [command for command in left if not succeeds(command)]) and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(2 * pause, SELDOM_S)
        time.sleep(AGAIN_S)


def read_until_the_end(parent: int) -> bytes:
    """Read all that was said until the driver was done or gone."""
    text = b""
    os.set_blocking(0, False)
    while True:
        alive = os.getppid() == parent  # asked first: what it said before it died is still read
        select.select([0], [], [], LOOK_EVERY_S if alive else 0)
        try:
            more = os.read(0, 65536)
        except BlockingIOError:
            if alive:
                continue
            return text
        if not more:
            return text
        text += more


def succeeds(command: list[str]) -> bool:
    with suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(command, timeout=ANSWER_WITHIN_S, check=False).returncode == 0
    return False


if __name__ == "__main__":
    main(int(sys.argv[1]))
