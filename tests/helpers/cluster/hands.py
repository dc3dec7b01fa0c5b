"""Processes that stand for containers in clouds: started as a cloud was asked to, told to go, killed, listened to."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

STOP_WITHIN_S = 8.0  # from SIGTERM to SIGKILL
MODULE = "scalable.cluster.clouds.start"


@dataclass(slots=True)
class Running:
    process: subprocess.Popen[bytes]
    output: bytearray = field(default_factory=bytearray)
    told: float | None = None
    """When it was told to go."""


def worker_command(script: str) -> list[str]:
    """What the container of a machine would run: all after the image."""
    [line] = [line for line in script.splitlines() if line.startswith("docker run ")]
    words = shlex.split(line)
    return words[words.index("-P") : words.index("2>&1")]


def run(arguments: list[str], env: dict[str, str]) -> Running:
    """What is in the container: this Python, instead of the image's."""
    assert arguments[:3] == ["-P", "-m", MODULE], arguments
    process = subprocess.Popen(
        [sys.executable, *arguments], env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    one = Running(process)
    threading.Thread(target=drain, args=(one,), name="log driver", daemon=True).start()
    return one


def drain(one: Running) -> None:
    assert one.process.stdout is not None
    with one.process.stdout as stream:
        for line in stream:
            one.output += line


def drained(one: Running) -> bytes:
    time.sleep(0.05)  # the last line may still be on its way
    return bytes(one.output)


def tell(one: Running) -> None:
    if one.told is None:
        one.told = time.monotonic()
        if one.process.poll() is None:
            one.process.send_signal(signal.SIGTERM)
    elif time.monotonic() - one.told > STOP_WITHIN_S:
        kill(one.process)


def kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
