"""What a process of ours can import, for the processes it starts."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path


def python_path() -> dict[str, str]:
    """Whatever this process can import its children can: modules beside the script, folders added while it runs."""
    own = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    found = dict.fromkeys(entry or here() for entry in sys.path if not entry.startswith(own))
    return {"PYTHONPATH": os.pathsep.join(entry for entry in found if Path(entry).exists())}


def off_the_path(folder: str) -> None:
    """Take a folder off ``sys.path`` again, where Dask put it; nothing is ever imported from it."""
    sys.path[:] = [entry for entry in sys.path if entry != folder]


def here() -> str:
    """The current folder, also after it was removed."""
    try:
        return str(Path.cwd())
    except OSError:
        return os.sep
