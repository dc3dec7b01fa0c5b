"""``python -m scalable.cluster.clouds.start SOURCE …``: the first program in a cloud worker's container.

Gets what the driver hands out (from the environment, or from the cloud's secret store by name), writes it into a
private folder and becomes ``python -m scalable.worker`` with the rest of the arguments. The secret is gone from the
environment of the worker and of all that it starts. ``packed`` makes that text in the driver.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import sys
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path

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
    line = [sys.executable, "-P", "-m", "scalable.worker", *arguments[1:], f"--handout={folder / 'handout'}"]
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


MOST_BYTES = 64 * 1024  # of a secret: AWS Secrets Manager allows 65,536, Google's Secret Manager the same
VARIABLE = "SCALABLE_HANDOUT"
"""Where a worker finds it if the cloud puts secrets into the environment."""
ENVIRONMENT_FILE = "environment.json"


class HandoutError(ScalableError):
    """It is too large for a secret, or what a worker got cannot be read."""


def packed(folder: Path, environment: Mapping[str, str]) -> str:
    """Return what the driver hands to workers of a kind where no folder is shared, as a text for a secret store.

    It holds the run's certificates, what the workers' code should be and the environment of the kind, so none of that
    stands in a command line, a task definition or the user data of a machine, which others of the account may read.
    """
    files = {file.name: base64.b64encode(file.read_bytes()).decode() for file in sorted(folder.iterdir())}
    files[ENVIRONMENT_FILE] = base64.b64encode(json.dumps(dict(environment)).encode()).decode()
    text = base64.b64encode(zlib.compress(json.dumps(files).encode(), 9)).decode()
    if len(text) > MOST_BYTES:
        size = f"{len(text) / 1024:.0f} KiB, {MOST_BYTES // 1024} KiB are possible"
        raise HandoutError(f"the project is too large to be handed out ({size}); put it into the image, code: image")
    return text


def unpack(text: str, folder: Path) -> dict[str, str]:
    """Write the files again, readable by nobody else; returns the environment."""
    try:
        files = json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
        environment: dict[str, str] = json.loads(base64.b64decode(files.pop(ENVIRONMENT_FILE)))
    except (binascii.Error, zlib.error, KeyError, ValueError) as error:
        raise HandoutError(f"what the run hands out cannot be read: {error}") from None
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in files.items():
        private = os.open(folder / Path(name).name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(private, "wb") as file:
            file.write(base64.b64decode(content))
    return environment


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
