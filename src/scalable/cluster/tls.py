"""Certificates of one cluster: made for it, known to nobody else, so that only its own members can talk to it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from distributed.security import Security

from scalable.errors import MissingExtraError

KEYS = ("ca.pem", "cert.pem", "key.pem")


def certified(folder: Path) -> Security:
    """Security for scheduler, client and workers, with the files workers need written into a private folder."""
    try:
        security: Any = Security.temporary()
    except ImportError as error:
        raise MissingExtraError(
            f"connections between machines are encrypted, which needs cryptography ({error}); "
            "pip install 'scalable[slurm]'"
        ) from None
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    texts = (security.tls_ca_file, security.tls_worker_cert, security.tls_worker_key)
    for name, text in zip(KEYS, texts, strict=True):
        (folder / name).unlink(missing_ok=True)  # an old one may have other permissions
        private = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(private, "w") as file:
            file.write(text)
    made: Security = security
    return made


def forget(folder: Path) -> None:
    """Remove the keys of a cluster that is closed."""
    for name in KEYS:
        (folder / name).unlink(missing_ok=True)
