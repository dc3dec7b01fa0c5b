"""What keeps others out of a run: certificates that only its members have, and folders that only its user can enter.

Dask keeps its scratch folders in one place that all users of a machine share, uses a folder of that name whoever made
it, and puts it first on ``sys.path``: another user could plant a module there that the driver imports. So scheduler,
workers and notes get a folder that only their user can enter, and no scratch folder stays on the path.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Any

from distributed.security import Security

from scalable.errors import MissingExtraError

KEYS = ("ca.pem", "cert.pem", "key.pem")


def certified(folder: Path) -> Security:
    """Make certificates for scheduler, client and workers, and write what workers need into a private folder."""
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


class Scratch:
    """A folder of mode 0700 that is removed with its owner, or earlier by ``remove``."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="scalable-"))
        self.remove = weakref.finalize(self, remove, self.path, os.getpid())


def remove(folder: Path, owner: int) -> None:
    """Remove a folder, unless this is a forked child of its owner."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def off_the_path(folder: str) -> None:
    """Take a folder off ``sys.path`` again, where Dask put it; nothing is ever imported from it."""
    sys.path[:] = [entry for entry in sys.path if entry != folder]
