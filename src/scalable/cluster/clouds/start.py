"""``python -m scalable.cluster.clouds.start SOURCE …``: the first program in a cloud worker's container.

Gets what the driver hands out (from the environment, or from the cloud's secret store by name), writes it into a
private folder and becomes ``python -m scalable.worker`` with the rest of the arguments. The secret is gone from the
environment of the worker and of all that it starts.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from scalable.cluster.clouds.handout import VARIABLE, HandoutError, unpack
from scalable.errors import ScalableError
from scalable.worker.options import CANNOT_START

ENVIRONMENT, AWS, GCP = "environment", "aws:", "gcp:"
"""Where the text is: in the variable, or under the name that follows."""


def main(arguments: list[str]) -> int:  # noqa: RET503 - it does not come back from execve
    try:
        folder = Path(tempfile.mkdtemp(prefix="scalable-"))
        environment = unpack(text_from(arguments[0]), folder / "handout")
    except (ScalableError, OSError, IndexError) as error:
        print(f"scalable worker: cannot start: {error}", file=sys.stderr, flush=True)
        return CANNOT_START
    left = {name: value for name, value in os.environ.items() if name != VARIABLE}
    line = [sys.executable, "-m", "scalable.worker", *arguments[1:], f"--handout={folder / 'handout'}"]
    os.execve(sys.executable, line, {**left, **environment})


def text_from(source: str) -> str:
    if source == ENVIRONMENT:
        text = os.environ.get(VARIABLE)
        if not text:
            raise HandoutError(f"{VARIABLE} is empty; may the task's execution role read the run's secret?")
        return text
    if source.startswith(AWS):
        from scalable.cluster.aws import account

        return account.read_secret(source.removeprefix(AWS))
    if source.startswith(GCP):
        from scalable.cluster.gcp import api

        return api.read_secret(source.removeprefix(GCP))
    raise HandoutError(f"{source!r} is no place where a handout is kept")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
