"""What is done to a private PostgreSQL that no program of it offers."""

from __future__ import annotations

import os
import signal
import time

from scalable import proc
from tests.tools.errors import ToolError
from tests.tools.postgres import READY_S, PrivatePostgres


def kill_and_start(server: PrivatePostgres) -> None:
    """kill -9 of all its processes, as when its machine loses power, and somebody who starts it again."""
    process = server._server
    assert process is not None
    below = proc.tree(process.pid)
    os.kill(process.pid, signal.SIGKILL)  # first, or it would start again those that die
    for pid in below[1:]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait(READY_S)
    server._server = None
    deadline = time.monotonic() + READY_S
    while True:
        try:
            server.start()
            return
        except ToolError:  # the kernel has not yet given up the memory of the dead
            server._server = None
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
