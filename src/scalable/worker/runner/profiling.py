"""Where a running process spends its time, as a flame graph, taken from outside by py-spy without pausing it."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

from scalable import proc
from scalable.errors import ScalableError
from scalable.observe.redact import redact_text
from scalable.worker.runner import stacks
from scalable.worker.runner.stacks import StackError

LONGEST_S = 600.0  # more samples say no more, and someone is waiting
RATE = 100  # samples a second; more cost the process that is looked at
GRACE_S = 20.0  # to start on a loaded machine, and to draw
LARGEST = 1 << 25  # bytes of a picture


class ProfileError(ScalableError):
    """A process that could not be profiled; the message says why and what to do."""


async def flame_graph(pid: int, seconds: float) -> bytes:
    """An SVG of what the process and its children did in the next seconds; waiting is not in it.

    A process that ends meanwhile gives a graph of what it did until then.
    """
    if not 0 < seconds <= LONGEST_S:
        raise ProfileError(f"a profile takes up to {LONGEST_S:.0f} s, e.g. 10")
    program = stacks.py_spy()
    if program is None:
        raise ProfileError(stacks.MISSING)
    if not proc.alive(pid):
        raise ProfileError(f"process {pid} has ended")
    whole = math.ceil(seconds)
    with tempfile.TemporaryDirectory(prefix="scalable-profile-") as folder:
        picture = Path(folder) / "flames.svg"
        command = [program, "record", "--pid", str(pid), "--subprocesses", "--nonblocking", "--duration", str(whole)]
        command += ["--rate", str(RATE), "--format", "flamegraph", "--output", str(picture)]
        try:
            status, out, complaint = await stacks.run(command, whole + GRACE_S)
        except StackError as error:
            raise ProfileError(str(error)) from None
        drawn = picture.read_bytes() if picture.exists() and picture.stat().st_size <= LARGEST else b""
    if status == 0 and b"<svg" in drawn:
        return redact_text(drawn.decode(errors="replace")).encode()  # frames of processes carry their command lines
    raise ProfileError(why_not(pid, whole, out.decode(errors="replace") + complaint))


def why_not(pid: int, seconds: int, complaint: str) -> str:
    if not proc.alive(pid):
        return f"process {pid} ended before anything was seen of it"
    if "No stack counts" in complaint:
        return f"process {pid} only waited for {seconds} s; its stacks say what for"
    return stacks.reason(pid, complaint)
