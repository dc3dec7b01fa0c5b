"""A cached task whose files are gone or changed makes them again; what came from the cache is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalable import ScalableSession
from scalable.cli.main import main
from scalable.observe import RunFolder
from scalable.show.report.material import material_of
from scalable.show.report.page import page
from tests.helpers.session.builders import Project

pytestmark = pytest.mark.usefixtures("world")

CODE = """
    from pathlib import Path

    def model(years):
        with open("calls.txt", "a") as calls:
            calls.write("x")
        Path("flows.csv").write_text(f"{years} years")
        return "flows.csv"
"""


@pytest.fixture
def session(project: Project, monkeypatch: pytest.MonkeyPatch) -> ScalableSession:
    monkeypatch.chdir(project.folder)
    task = {"component": "demeter", "run": f"{project.module(CODE)}:model", "arguments": {"years": 3}}
    return project.session(tasks={"model": {**task, "cache": True, "outputs": {"flows": "file"}}})


def run(session: ScalableSession) -> int:
    """Run the task, and return how often it has been computed in all."""
    with session:
        assert session.run_tasks() == {"model": "flows.csv"}
    return len(Path("calls.txt").read_text())


def test_a_result_counts_only_while_its_files_are_there_as_they_were_made(session: ScalableSession) -> None:
    assert [run(session), run(session)] == [1, 1]
    Path("flows.csv").unlink()
    assert run(session) == 2
    assert Path("flows.csv").read_text() == "3 years"
    Path("flows.csv").write_text("somebody edited it")
    assert run(session) == 3
    assert Path("flows.csv").read_text() == "3 years"
    assert run(session) == 3


def test_what_came_from_the_cache_is_in_journal_report_and_status(
    session: ScalableSession, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    run(session)
    main(["status", "--run-id", project.runs()[-1].name])
    assert "cache" not in capsys.readouterr().out
    run(session)
    assert [record.get("recalled") for record in project.journal("attempt-ended")] == [True]
    folder = RunFolder(project.runs()[-1])
    assert json.loads((folder.path / "report.json").read_text())["tasks"]["demeter"]["recalled"] == 1
    shown = page(material_of(folder))
    assert "from the cache</th>" in shown and "1 from the cache" in shown
    main(["status", "--run-id", folder.run_id])
    assert "1 done, 1 from the cache" in capsys.readouterr().out
    main(["status", "--run-id", folder.run_id, "--format", "json"])
    assert json.loads(capsys.readouterr().out)["run"]["recalled"] == {"demeter": 1}
