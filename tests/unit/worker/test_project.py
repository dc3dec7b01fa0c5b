"""A project that is handed out to workers: it is there as it was."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from scalable.worker.project import ProjectCode


def test_files_without_a_time_are_handed_out_like_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, place, scratch = (tmp_path / name for name in ("project", "handout", "worker"))
    for one in (folder, place, scratch):
        one.mkdir()
    (folder / "steps.py").write_text("def one():\n    return 1\n", encoding="utf-8")
    os.utime(folder / "steps.py", (0, 0))  # as builds that are to be the same everywhere leave them
    ProjectCode.of_folder(folder, "upload").hand_out(place)
    monkeypatch.setattr(sys, "path", list(sys.path))
    handed = ProjectCode.handed_out(place)
    assert handed is not None and handed.prepare(place, scratch) == []
    assert (scratch / "project" / "steps.py").read_bytes() == (folder / "steps.py").read_bytes()
    assert sys.path[0] == str(scratch / "project")
