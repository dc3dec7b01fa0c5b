"""Why forks with threads are refused: each danger as it is, and that the guard and the right way avoid it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from scalable import proc
from scalable.worker.runner.environment import child_environment
from tests.helpers.paths import ROOT

GIVEN_S = 90.0  # a scene takes 3 to 20 s; one that hangs itself has failed


@cache
def scene(name: str, grpc: str = "0") -> Mapping[str, Any]:
    """What became of everything that a scene tried."""
    with tempfile.TemporaryDirectory() as folder:
        notes, output = Path(folder) / "notes", Path(folder) / "output"
        with output.open("w") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.helpers.forks.scenes", name, str(notes)],
                cwd=ROOT,
                env=child_environment(os.environ, cpus=2, grpc={"GRPC_ENABLE_FORK_SUPPORT": grpc}),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        try:
            process.wait(GIVEN_S)
        except subprocess.TimeoutExpired:
            pass  # the notes tell how far it came
        finally:
            proc.kill_tree(process.pid)
            process.wait()
        lines = notes.read_text().splitlines() if notes.exists() else []
        found: dict[str, Any] = {}
        for line in lines:
            found |= json.loads(line)
        return found | {"said": output.read_text(errors="replace")[-2000:]}
