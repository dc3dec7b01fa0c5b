"""The command line when things are odd: strange names, narrow screens, closed pipes, full disks and interruptions."""

from __future__ import annotations

from pathlib import Path


def put(folder: Path, text: str, name: str = "scalable.yaml") -> None:
    (folder / name).write_text(text, encoding="utf-8")
