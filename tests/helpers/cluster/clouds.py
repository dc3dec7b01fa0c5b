"""Secrets as a worker in a cloud is handed them, and launchers that do not wait long."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalable.cluster.clouds import launcher
from scalable.cluster.clouds.start import packed


def a_handout(folder: Path) -> str:
    folder.mkdir()
    (folder / "notes.txt").write_text("public")
    (folder / "key.pem").write_text("private")
    return packed(folder, {"WHO": "me"})


def ask_often(patch: pytest.MonkeyPatch) -> None:
    """Let launchers ask a cloud that serves nobody else more often."""
    patch.setattr(launcher, "SOON_S", 0.1)
    patch.setattr(launcher, "SELDOM_S", 1.0)
