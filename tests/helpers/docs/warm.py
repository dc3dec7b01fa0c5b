"""The command ``scalable`` without its start: a process that has imported the package forks for every call.

A page calls it a dozen times, and each start would take a second to import the same modules. Beside the imports
nothing is shared: every call is a process of its own, with the arguments, folder, environment and open files of its
caller.
"""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

import scalable
from tests.helpers.paths import ROOT

LARGEST = 1 << 17  # bytes of arguments and environment; Linux passes on as much in one message
CALLER = """#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.connect({address!r})
socket.send_fds(server, [json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()], [0, 1, 2])
sys.exit(int(server.recv(16)))
"""


@contextmanager
def warm_command(folder: Path) -> Iterator[Path]:
    """Start the server; yields the folder of the program ``scalable``, to be put first in the search path."""
    address = folder / "socket"
    program = folder / "bin/scalable"
    program.parent.mkdir()
    program.write_text(CALLER.format(python=sys.executable, address=str(address)), encoding="utf-8")
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(address))
        listening.listen()  # from now on callers may come, and wait for the server to be ready
        server = subprocess.Popen(
            [sys.executable, "-m", __name__, str(listening.fileno())], cwd=ROOT, pass_fds=[listening.fileno()]
        )
    try:
        yield program.parent
    finally:
        server.terminate()
        server.wait()


def serve(listening: socket.socket) -> None:
    """Fork for every caller; the fork that is to run the command returns, and the server never does."""
    import_everything()
    signal.signal(signal.SIGCHLD, reap)
    with listening:
        while True:
            caller, _ = listening.accept()
            with caller:
                if not os.fork():
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    message, files, _, _ = socket.recv_fds(caller, LARGEST, 3)
                    if not (command := os.fork()):
                        break
                    _, status = os.waitpid(command, 0)
                    caller.send(str(os.waitstatus_to_exitcode(status) % 256).encode())
                    os._exit(0)
    for standard, file in enumerate(files):
        os.dup2(file, standard)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    sys.argv, folder, environment = json.loads(message)
    sys.path[0] = str(Path(sys.argv[0]).parent)  # as Python sets it for a program
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)


def reap(*_: object) -> None:
    """Take note of the processes that have reported to their callers, so that their time counts as the server's."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def import_everything() -> None:
    for module in pkgutil.walk_packages(scalable.__path__, "scalable."):
        if not module.name.endswith("__main__") and not module.name.startswith("scalable.testing."):
            import_module(module.name)
    import_module("pandas")
    gc.freeze()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
    from scalable.cli.main import main

    raise SystemExit(main())
