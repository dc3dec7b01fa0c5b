"""What the driver hands to workers of a kind where no folder is shared: one text that a cloud's secret store keeps.

It holds the run's certificates, the environment of the kind and what the workers' code should be, so none of that
stands in a command line, in a task definition or in the user data of a machine, which others of the account may read.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path

from scalable.errors import ScalableError

MOST_BYTES = 64 * 1024  # of a secret: AWS Secrets Manager allows 65,536, Google's Secret Manager the same
VARIABLE = "SCALABLE_HANDOUT"
"""Where a worker finds it if the cloud puts secrets into the environment."""
ENVIRONMENT = "environment.json"


class HandoutError(ScalableError):
    """It is too large for a secret, or what a worker got cannot be read."""


def packed(folder: Path, environment: Mapping[str, str]) -> str:
    """All files of the driver's folder, and what a kind of worker has in its environment, as one text."""
    files = {file.name: base64.b64encode(file.read_bytes()).decode() for file in sorted(folder.iterdir())}
    files[ENVIRONMENT] = base64.b64encode(json.dumps(dict(environment)).encode()).decode()
    text = base64.b64encode(zlib.compress(json.dumps(files).encode(), 9)).decode()
    if len(text) > MOST_BYTES:
        size = f"{len(text) / 1024:.0f} KiB, {MOST_BYTES // 1024} KiB are possible"
        raise HandoutError(f"the project is too large to be handed out ({size}); put it into the image, code: image")
    return text


def unpack(text: str, folder: Path) -> dict[str, str]:
    """The files again, readable by nobody else; returns the environment."""
    try:
        files = json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
        environment: dict[str, str] = json.loads(base64.b64decode(files.pop(ENVIRONMENT)))
    except (binascii.Error, zlib.error, KeyError, ValueError) as error:
        raise HandoutError(f"what the run hands out cannot be read: {error}") from None
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in files.items():
        private = os.open(folder / Path(name).name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(private, "wb") as file:
            file.write(base64.b64decode(content))
    return environment
