"""Ends that nobody plans for: code that exits, forks, or asks for what no worker has, and how they are told."""

from __future__ import annotations

import pytest

from tests.helpers.session.builders import Project
from tests.helpers.waiting import LONG_S


def test_a_forked_child_leaves_the_session_alone(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(target={"processes": True})
    monkeypatch.setenv("TMPDIR", str(project.folder))
    process = project.script(
        """
        import glob, os, warnings
        warnings.simplefilter("ignore")
        from scalable import ScalableSession

        with ScalableSession.from_yaml() as client:
            before = glob.glob("scalable-*")
            child = os.fork()
            if child == 0:
                raise SystemExit(0)
            os.waitpid(child, 0)
            print(bool(before) and glob.glob("scalable-*") == before, client.submit(abs, -7, tag="demeter").result())
        """
    )
    out, _ = process.communicate(timeout=LONG_S)
    assert process.returncode == 0
    assert out.split() == ["True", "7"], "scheduler and workers need their folders"
    assert list(project.folder.glob("scalable-*")) == []
