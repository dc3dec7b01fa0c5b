"""How a worker in a cloud is handed its secrets, what its machine runs, and what a target's check finds."""

from __future__ import annotations

from pathlib import Path

from scalable.cluster.clouds.handout import packed


def a_handout(folder: Path) -> str:
    folder.mkdir()
    (folder / "notes.txt").write_text("public")
    (folder / "key.pem").write_text("private")
    return packed(folder, {"WHO": "me"})
