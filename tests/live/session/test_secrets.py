"""Secrets in the environment of a run are in nothing that is written down about it."""

from __future__ import annotations

import pytest

import scalable
from tests.helpers.session.builders import Project
from tests.helpers.session.tasks_of import tasks_of

CODE = """
    import os, subprocess, sys, time
    import scalable

    def hang():
        password = os.environ["DB_PASSWORD"]
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", f"--token={os.environ['API_TOKEN']}"])
        print("connecting with", password, flush=True)
        scalable.progress(1, 2, f"as {password}")
        time.sleep(600)

    def fail():
        raise ConnectionError(f"no answer to {os.environ['DB_PASSWORD']}")
"""


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
def test_neither_dumps_nor_incidents_nor_journals_have_them(
    project: Project, processes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", "correct-horse-battery")
    session = project.session(
        target={"processes": processes, "max_workers": 2},
        components={"demeter": {"env": {"API_TOKEN": "staple-from-the-manifest"}}},
        tasks=tasks_of(project.module(CODE), "hang", "fail"),
        policies={"retry": {"times": 0}, "stuck": {"after": "1s"}},
    )
    with session:
        with pytest.raises(scalable.TaskError) as error:
            session.run_tasks()
        worker = project.journal("worker-joined")[0]["worker"]
        driver = session.live()
        dump = driver.cluster.sync(driver.ask, worker, "dump")
    written = {path: path.read_text(errors="replace") for path in session.folder.path.rglob("*") if path.is_file()}
    told = {"the error": str(error.value), "a dump": str(dump)}
    told |= {str(path): text for path, text in written.items() if "works" not in path.parts}
    assert any("incidents" in name for name in told)
    assert {path: oct(path.stat().st_mode & 0o777) for path in written if path.stat().st_mode & 0o077} == {}
    logs = [text for path, text in written.items() if path.suffix == ".log"]
    assert any("connecting with ***" in text for text in logs)
    for secret in ("correct-horse-battery", "staple-from-the-manifest"):
        assert [name for name, text in told.items() if secret in text] == []
