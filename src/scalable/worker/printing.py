"""The output of a worker and its runners on its way into a log: redacted, timed, cut and capped.

All of them print into one pipe. A process of its own, the writer, copies what comes out of it to where the worker
printed before, line by line. So what was said right before a crash or a kill is written all the same, a worker that is
busy holds up no line, and secrets are known by the environment of those who print, not by that of who looks later.

The writer is no child of the worker and has none of its marks: it ends when the last one who prints into the pipe is
gone, soon after the worker in any case. It imports no more than redaction needs and starts in some hundredths of a
second. If somebody kills it, another one takes its place and goes on with the next line.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import select
import signal
import stat
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

if __name__ == "__main__":  # started without the packages of the environment, so behind what Python itself has
    sys.path.append(str(Path(__file__).parents[2]))

from scalable import proc
from scalable.observe.logs import LONGEST_LINE, LONGEST_SECRET, shown
from scalable.observe.redact import Redactor, suspicious
from scalable.worker.reaper import unmarked

LARGEST_LOG = 1 << 26  # bytes of one worker; a loop that prints must not fill the disk of a shared machine
CAPPED = "scalable: log capped at {size} MiB: what was printed after this line is not kept"
BLOCK = 1 << 16  # bytes, what a pipe holds
LOOK_EVERY_S = 2.0  # at the worker: a process that escaped from it must not keep the writer
FLUSH_WITHIN_S = 3.0  # when a worker ends; a disk that hangs must not hold it longer
AGAIN_S = 1.0  # after a writer could not be started


class LogPipe:
    """A pipe into a log, and the thread that keeps a writer at its other end."""

    def __init__(self, log: int, environment: Mapping[str, str] | None = None) -> None:
        """Write to the file ``log``; secrets are those of this process's environment and of the one given."""
        self.log = log
        self.environment = {**os.environ, **(environment or {})}
        self.reading, self.writing = os.pipe()
        self.writer: int | None = None
        self.closed = False
        self.owner = os.getpid()
        OPEN[os.fstat(self.writing).st_ino] = self
        self.thread = threading.Thread(target=self.keep_writer, name="log", daemon=True)
        self.thread.start()

    def keep_writer(self) -> None:
        while not self.closed:
            over, theirs = os.pipe()
            try:
                self.start_writer(theirs)
            except OSError:  # no more processes; what is printed waits in the pipe
                time.sleep(AGAIN_S)
            finally:
                os.close(theirs)
            self.writer = int(os.read(over, 32) or 0)
            os.read(over, 1)  # returns when it has ended
            os.close(over)

    def start_writer(self, over: int) -> None:
        """Start it in such a way that it is nobody's child: who ends the worker with its children spares it."""
        subprocess.run(
            [sys.executable, "-I", "-S", __file__, str(over), str(self.owner)],
            stdin=self.reading, stdout=self.log, stderr=subprocess.DEVNULL, pass_fds=(over,), start_new_session=True,
            env=unmarked(self.environment),
            check=False,
        )  # fmt: skip

    def close(self) -> None:
        """Wait a while until everything is written. Nothing may be printed into it any more."""
        if os.getpid() != self.owner or self.closed:
            return
        self.closed = True
        OPEN.pop(os.fstat(self.writing).st_ino, None)
        os.close(self.writing)
        self.thread.join(FLUSH_WITHIN_S)
        for number in (self.reading, self.log):
            os.close(number)

    def written(self) -> bool:
        """Return whether nothing waits in the pipe and its writer waits for more."""
        waiting = int.from_bytes(fcntl.ioctl(self.reading, termios.FIONREAD, bytes(4)), sys.byteorder)
        writer = proc.look(self.writer) if self.writer else None
        return not waiting and writer is not None and writer.state == "S"


OPEN: dict[int, LogPipe] = {}
"""The pipes of this process by their inode: a process that prints knows its pipe by a file number of its own."""

OWN: list[LogPipe] = []
"""The pipe that this process and all that it starts print into, if it is a worker."""


def redirect() -> None:
    """Have all that this process and its children print from now on go through a writer."""
    try:
        pipe = LogPipe(os.dup(1))
    except OSError:  # it was started without an output
        return
    OWN.append(pipe)
    os.dup2(pipe.writing, 1)
    os.dup2(pipe.writing, 2)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    atexit.register(finish)


def finish() -> None:
    """Have everything written that was printed; what is printed after this is lost."""
    if not OWN or os.getpid() != OWN[0].owner:
        return
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # somebody's code may have closed it
            stream.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    OWN.pop().close()


def written(output: int | None) -> bool:
    """Return whether all that was printed into a pipe is in its log; into this process's own if none is given."""
    try:
        pipe = OPEN.get(os.fstat(1 if output is None else output).st_ino)
        return pipe is None or pipe.written()
    except OSError:
        return True


def own_log() -> Path | None:
    """Return where this worker prints, if that is a file."""
    number = OWN[0].log if OWN else 1
    with suppress(OSError):
        if stat.S_ISREG(os.fstat(number).st_mode):
            return Path(f"/proc/self/fd/{number}").readlink()
    return None


def own_writer() -> int | None:
    """Return the process that writes the log of this worker."""
    return OWN[0].writer if OWN else None


class LogLines:
    """The lines of a log, made of what was printed as it comes."""

    def __init__(self, most: int = LARGEST_LOG) -> None:
        self.most = self.left = most
        self.redactor = Redactor()
        self.rest = b""
        """The beginning of a line that has no end yet."""
        self.amid = False
        """Whether the line that goes on is so long that its end is left out."""

    def feed(self, data: bytes, moment: str) -> bytes:
        """Return what to write of data that came in at a moment."""
        if self.left <= 0:
            return b""
        *lines, rest = (self.rest + data).split(b"\n")
        if self.amid and lines:
            lines.pop(0)
            self.amid = False
        elif self.amid:
            rest = b""
        if len(rest) > LONGEST_LINE + LONGEST_SECRET:
            lines.append(rest)
            rest, self.amid = b"", True
        self.rest = rest
        return self.capped(self.written(lines, moment), moment) if lines else b""

    def end(self, moment: str) -> bytes:
        """Return what is left: a line without an end."""
        return self.feed(b"\n", moment) if self.rest else b""

    def written(self, lines: list[bytes], moment: str) -> bytes:
        text = b"\n".join(lines).decode(errors="replace")
        if self.redactor.in_key or max(map(len, lines)) > LONGEST_LINE or suspicious(text):
            text = "\n".join(shown(line, self.redactor) for line in text.split("\n"))
        return (f"{moment} " + text.replace("\n", f"\n{moment} ") + "\n").encode(errors="replace")

    def capped(self, text: bytes, moment: str) -> bytes:
        if len(text) < self.left:
            self.left -= len(text)
            return text
        kept = text[: text.rfind(b"\n", 0, self.left) + 1]
        self.left = 0
        return kept + f"{moment} {CAPPED.format(size=self.most >> 20)}\n".encode()


def main(over: int, worker: int) -> None:
    if os.fork():
        os._exit(0)
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # what ends a job ends the worker, and that ends us
        signal.signal(name, signal.SIG_IGN)
    os.write(over, str(os.getpid()).encode())
    lines, looked, gone = LogLines(), time.monotonic(), False
    while True:
        if select.select([0], [], [], LOOK_EVERY_S)[0]:
            if not (data := os.read(0, BLOCK)):
                break
            write(lines.feed(data, now()))
        if time.monotonic() - looked > LOOK_EVERY_S:
            if gone:
                break
            looked, gone = time.monotonic(), not proc.exists(worker)
    write(lines.end(now()))


def now() -> str:
    return utc(time.time())


def utc(seconds: float) -> str:
    """Return a time as it stands before each line."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int(seconds * 1000) % 1000:03d}Z"


def write(text: bytes) -> None:
    with suppress(OSError):  # a full disk; who prints goes on
        while text:
            text = text[os.write(1, text) :]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
