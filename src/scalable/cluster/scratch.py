"""Private folders of a run on this machine.

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
