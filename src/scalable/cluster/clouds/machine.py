"""The program of a machine that is hired for one worker: run the worker's container, pass notices on, switch off.

Written for the first boot of an image with Docker. It holds no secret. Its last lines go to the machine's console,
where the driver reads how the worker ended; the machine switches itself off, so that none runs on without a driver.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from scalable.quantities import Memory

MARK = "scalable-worker-ended"
STOP_WITHIN_S = 30  # from notice to kill: running tasks have 20 s, handing over 8
CANNOT_PULL = 125  # Docker's own exit status for containers that it could not start
LAST_LINES = 5  # of the worker's log, on the console
ENDED = re.compile(rf"{MARK} code=(-?\d+) oom=(true|false)")
SAID = re.compile(r"scalable worker: ([^\r\n]+)")


@dataclass(frozen=True, slots=True)
class Ending:
    """What a machine said of its worker before it switched itself off."""

    code: int
    out_of_memory: bool
    said: str = ""


def boot_script(
    image: str,
    command: Sequence[str],
    *,
    memory: Memory | None = None,
    gpus: int = 0,
    before: Sequence[str] = (),
    beside: Sequence[str] = (),
) -> str:
    """``before`` are lines that come before the image is pulled; ``beside`` those that run while the worker does."""
    run = ["docker", "run", "--detach", "--name=scalable-worker", "--network=host", "--init"]
    run.append(f"--stop-timeout={STOP_WITHIN_S}")
    if memory is not None:
        run += [f"--memory={memory.bytes}", f"--memory-swap={memory.bytes}"]
    if gpus:
        run.append("--gpus=all")
    lines = [
        "#!/bin/bash",
        "set -o pipefail",
        "console() { tee -a /dev/console; }",
        "finish() {",
        f'  echo "{MARK} code=$1 oom=$2" | console',
        "  sync; sleep 2; shutdown -h now; exit",
        "}",
        *before,
        f"docker pull --quiet {shlex.quote(image)} 2>&1 | console || {{",
        f"  echo {shlex.quote(f'scalable worker: cannot pull {image}')} | console; finish {CANNOT_PULL} false",
        "}",
        f"{shlex.join([*run, image, *command])} 2>&1 | console || {{",
        f"  echo {shlex.quote(f'scalable worker: cannot run {image}')} | console; finish {CANNOT_PULL} false",
        "}",
        *beside,
        "code=$(docker wait scalable-worker)",
        f"docker logs --tail {LAST_LINES} scalable-worker 2>&1 | console",
        'finish "$code" "$(docker inspect --format \'{{.State.OOMKilled}}\' scalable-worker)"',
    ]
    return "\n".join(lines) + "\n"


def ending(console: str) -> Ending | None:
    """How the worker ended according to the console; nothing if it does not say."""
    found = ENDED.findall(console)
    if not found:
        return None
    said = SAID.findall(console)
    return Ending(int(found[-1][0]), found[-1][1] == "true", said[-1] if said else "")
