"""What is shown while a sweep runs, and what its commands say when rows failed or a word is not known."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_exit_status_of_a_sweep_is_true_though_nobody_reads_its_results(tmp_path: Path) -> None:
    sweep = "{factor: trees, variants: [1, 2], assets: [A], folds: 1, run: 'luckless:score'}"
    head = "version: 1\nproject: {name: x}\ntargets: {here: {provider: local, processes: true}}"
    (tmp_path / "scalable.yaml").write_text(f"{head}\nsweeps: {{s: {sweep}}}\n")
    (tmp_path / "luckless.py").write_text("def score(*, asset, trees):\n    raise RuntimeError('no luck')\n")
    reader = f"{sys.executable} -m scalable.cli.main run | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", reader], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout == "1\n"
    assert "failed in" in done.stderr and "goes on from them" not in done.stderr and "Traceback" not in done.stderr
