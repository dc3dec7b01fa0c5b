"""Scripts as people write them, in processes of their own: without guards, interrupted, killed, never closed."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from scalable import proc
from tests.helpers.session.builders import Project
from tests.helpers.waiting import LONG_S, until

HEAD = "from scalable import ScalableSession\nsession = ScalableSession.from_yaml()\n"


def finish(script: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Its status and what it said; nothing hangs."""
    out, err = script.communicate(timeout=LONG_S)
    return script.returncode, out, err


def test_a_plain_script_needs_no_guard_and_may_forget_to_close(project: Project) -> None:
    beside = Project(project.folder / "a folder with spaces")
    beside.folder.mkdir()
    beside.write(target={"processes": True, "max_workers": 2}, project={"name": "Überlauf 水"})
    module = beside.module("FACTOR = 3\ndef times(number): return number * FACTOR")
    code = f"""
import {module}
from {module} import times

class Model:
    def __init__(self, year): self.year = year
    def next(self): return Model(self.year + 1)

def of_the_script(number, model):
    return number + len(str(model.next().year))

{HEAD}
client = session.start()
futures = [client.submit(of_the_script, 1, Model(2050), tag="demeter"), client.submit(times, 2, tag="demeter")]
futures += client.map(lambda a: a - {module}.FACTOR, [10, 20], tag="demeter")
print(client.gather(futures))
"""
    script = beside.script(code)
    status, out, err = finish(script)
    assert (status, out.strip()) == (0, "[5, 6, 7, 17]"), err
    assert err == ""
    assert beside.ended() == ("ok", "")
    assert (beside.runs()[-1] / "report.json").exists()
    assert beside.workers() == []


def test_an_error_that_nobody_catches_is_the_end_of_the_run(project: Project) -> None:
    project.write()
    status, _, err = finish(project.script(HEAD + "session.start()\nraise ValueError('no such year')"))
    assert status == 1
    assert err.count("Traceback") == 1
    assert project.ended() == ("failed", "ValueError: no such year")


@pytest.mark.parametrize("code", ["client.submit(time.sleep, 600, tag='demeter').result()", "time.sleep(600)"])
def test_an_interrupted_script_leaves_nothing_behind(project: Project, code: str) -> None:
    project.write(target={"processes": True})
    script = project.script(HEAD + f"import time\nclient = session.start()\nprint('ready')\n{code}\n")
    assert script.stdout is not None
    assert script.stdout.readline() == "ready\n"
    workers = project.workers()
    assert workers
    script.send_signal(signal.SIGINT)
    status, _, err = finish(script)
    assert status in (-signal.SIGINT, 130), err
    assert project.ended() == ("interrupted", "KeyboardInterrupt")
    assert not any(proc.alive(pid) for pid in workers)


@pytest.mark.parametrize("moment", ["run.json", "logs/demeter-0.log"])
def test_a_script_interrupted_while_it_starts_leaves_nothing_behind(project: Project, moment: str) -> None:
    project.write(target={"processes": True, "max_workers": 2})
    script = project.script(HEAD + "with session: print('started')\n")
    assert until(lambda: project.runs() and (project.runs()[0] / moment).exists())
    script.send_signal(signal.SIGINT)
    script.send_signal(signal.SIGINT)  # people press it twice
    status, out, err = finish(script)
    assert status in (-signal.SIGINT, 130), err
    assert out == ""
    assert project.ended()[0] == "interrupted"
    assert project.workers() == []


def test_a_killed_script_takes_its_workers_with_it_whatever_they_do(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(project.folder))
    project.write(target={"processes": True, "max_workers": 2})
    code = """
import ctypes, os, time
from pathlib import Path

def deaf(number):
    Path(f"pid-{number}").write_text(str(os.getpid()))
    ctypes.PyDLL(None).sleep(600)  # holds Python's lock all the time

futures = [session.start().submit(deaf, number, tag="demeter") for number in range(2)]
futures[0].result()
"""
    script = project.script(HEAD + code)
    notes = [project.folder / "pid-0", project.folder / "pid-1"]
    assert until(lambda: all(note.exists() and note.read_text() for note in notes))
    workers = [int(note.read_text()) for note in notes]
    assert sorted(workers) == sorted(project.workers())
    script.send_signal(signal.SIGKILL)
    finish(script)
    assert until(lambda: not any(proc.alive(pid) for pid in workers))
    assert until(lambda: not list(project.folder.glob("scalable-*"))), "their folder is removed by another process"


def test_a_deaf_worker_does_not_keep_a_session_from_closing(project: Project) -> None:
    project.write(target={"processes": True})
    code = """
import ctypes, time
from pathlib import Path

def deaf():
    Path("deaf").touch()
    ctypes.PyDLL(None).sleep(600)

client = session.start()
future = client.submit(deaf, tag="demeter")
while not Path("deaf").exists():
    time.sleep(0.02)
session.close()
"""
    status, _, err = finish(project.script(HEAD + code))
    assert status == 0, err
    assert project.ended() == ("ok", "")
    assert project.workers() == []


def test_a_script_that_changes_its_folder_records_its_run_where_it_began(project: Project, tmp_path: Path) -> None:
    project.write()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    code = f"import os\nwith session as client:\n    os.chdir({str(elsewhere)!r})\n    client.submit(int).result()\n"
    status, _, err = finish(project.script(HEAD + code))
    assert status == 0, err
    assert project.ended() == ("ok", "")
    assert list(elsewhere.iterdir()) == []
