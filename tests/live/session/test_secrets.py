"""Secrets in the environment of a run are in nothing that is written down about it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import scalable
from tests.helpers.session.builders import Project
from tests.helpers.session.tasks_of import tasks_of
from tests.helpers.waiting import LONG_S

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


PRINTING = """
import os, subprocess, sys

def work():
    print("plain", os.environ["DB_PASS"], flush=True)
    subprocess.run(["sh", "-c", "echo from a shell $STORE_KEY"])
    sys.stderr.write("in an address /" + os.environ["DB_PASS"] + "/ and no more\\n")
"""
RUN = """
version: 1
project: {name: prints}
targets: {here: {provider: local, max_workers: 1, processes: true}}
components: {model: {env: {STORE_KEY: "${STORE_KEY}"}}}
tasks: {work: {component: model, run: "jobs:work"}}
"""


def test_logs_show_no_secret_to_who_has_not_its_variable(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(PRINTING, encoding="utf-8")
    (tmp_path / "scalable.yaml").write_text(RUN, encoding="utf-8")
    secrets = {"DB_PASS": "tr0ub4dor-and-three", "STORE_KEY": "/a/path-that-is-one"}
    without = {name: value for name, value in os.environ.items() if name not in secrets}

    def scalable_command(*words: str, env: dict[str, str]) -> str:
        command = [sys.executable, "-P", "-m", "scalable", *words]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=3 * LONG_S)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    scalable_command("run", env=without | secrets)
    for words in (("logs",), ("logs", "model-0", "--lines", "1000")):
        shown = scalable_command(*words, env=without)
        for line in ("plain ***", "from a shell ***", "in an address /***/ and no more"):
            assert line in shown
        assert not [value for value in secrets.values() if value in shown]
