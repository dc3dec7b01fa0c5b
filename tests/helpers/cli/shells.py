"""The command line: what each command prints for people and machines, where it reads from, and how it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A real process, as a person would start it; ``scalable`` stands for the installed command."""
    text = command.replace("scalable ", f"{sys.executable} -m scalable ", 1)
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", text], cwd=folder, capture_output=True, text=True, check=False
    )
