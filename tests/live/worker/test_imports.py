"""What a worker's process imports: every pod and every batch job pays for it before its first run."""

from __future__ import annotations

import subprocess
import sys

NEEDLESS = ("pydantic", "sqlalchemy", "scalable.manifest", "scalable.engine", "scalable.observe.view")


def test_a_worker_starts_without_what_only_drivers_and_readers_need() -> None:
    code = f"import sys, scalable.worker.main; print([name for name in {NEEDLESS} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
