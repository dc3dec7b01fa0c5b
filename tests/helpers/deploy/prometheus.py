"""What ``scalable admin deploy prometheus`` writes, as Prometheus' and Alertmanager's own programs judge it."""

from __future__ import annotations

from pathlib import Path

from scalable.cli.main import main


def deployed(tmp_path: Path, *words: str) -> Path:
    folder = tmp_path / "watch"
    assert main(["admin", "deploy", "prometheus", "--output", str(folder), *words]) == 0
    return folder
