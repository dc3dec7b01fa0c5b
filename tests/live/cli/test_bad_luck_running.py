"""What may go wrong around ``scalable run``: odd scripts, signals, terminals and redirections."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scalable.cli.main import main
from tests.helpers.waiting import until

MANIFEST = """version: 1
project: {name: unlucky}
targets: {local: {provider: local, max_workers: 2, processes: true}}
components: {model: {cpus: 1, memory: 500MiB}}
tasks:
  slow: {component: model, run: "models:slow"}
  quick: {component: model, run: "models:quick"}
  A name that is far too long to stand beside anything in a line of a terminal: {component: model, run: "models:quick"}
"""
MODELS = """
import time
def slow(): time.sleep(1); return "slow one"
def quick(): return "quick one"
"""
WAITING = """
import time
from scalable import ScalableSession
with ScalableSession.from_yaml() as client:
    futures = client.map(time.sleep, range(60, 80), tag="model")
    open("begun", "w").close()
    client.gather(futures)
"""
PATIENCE_S = 60


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("MANIFEST", "TARGET", "RUNS_DIR"):
        monkeypatch.delenv(f"SCALABLE_{name}", raising=False)
    Path("scalable.yaml").write_text(MANIFEST)
    Path("models.py").write_text(MODELS)
    return tmp_path


def workflow(script: str, **options: Any) -> subprocess.CompletedProcess[str]:
    Path("workflow.py").write_text(script)
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.run(command("run", "--workflow", "workflow.py"), text=True, timeout=PATIENCE_S, **options)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "scalable", *arguments]


def journal() -> list[dict[str, Any]]:
    (path,) = Path(".scalable/runs").glob("*/journal.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def on_terminal(script: str, *, stdout_too: bool) -> tuple[str, str]:
    """What a script's stdout got if that is a file, and what the terminal got."""
    Path("workflow.py").write_text(script)
    ours, theirs = pty.openpty()
    with Path("out.txt").open("w") as file:
        run = subprocess.Popen(
            command("run", "--workflow", "workflow.py"), stdout=theirs if stdout_too else file, stderr=theirs
        )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert run.wait(timeout=PATIENCE_S) == 0
    return Path("out.txt").read_text(), seen.decode(errors="replace")


LONG_LINE = "x" * 300
PRINTING = f"""
import sys, time
print("{LONG_LINE}")
print("part of a line, ", end="")
time.sleep(1.2)
print("and its rest")
"""


def test_a_script_prints_into_a_file_also_when_progress_is_on_a_terminal() -> None:
    printed, seen = on_terminal(PRINTING, stdout_too=False)
    assert printed == f"{LONG_LINE}\npart of a line, and its rest\n"
    assert "2 workers" in seen
    assert LONG_LINE not in seen


def test_lines_of_a_script_come_out_unbroken_above_the_progress() -> None:
    _, seen = on_terminal(PRINTING, stdout_too=True)
    assert LONG_LINE in seen
    assert "part of a line, and its rest" in seen


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_run_in_order_and_without_noise(signum: signal.Signals, status: int) -> None:
    Path("workflow.py").write_text(WAITING)
    before = signal.signal(signum, signal.SIG_DFL)  # tests may have been started where it is ignored: nohup, cron
    run = subprocess.Popen(command("run", "--workflow", "workflow.py"), stderr=subprocess.PIPE, text=True)
    signal.signal(signum, before)
    assert until(lambda: Path("begun").exists() or run.poll() is not None)
    run.send_signal(signum)
    _, told = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == status
    assert "Traceback" not in told and "never retrieved" not in told, told
    assert "interrupted in" in told
    assert journal()[-1]["kind"] == "ended"
    assert journal()[-1]["status"] == "interrupted"


def test_a_script_that_is_no_python_is_told_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    Path("workflow.py").write_text("def f(:\n")
    assert main(["run", "--workflow", "workflow.py"]) == 2
    message = capsys.readouterr().err
    assert "workflow.py is no Python script" in message
    assert 'File "workflow.py", line 1' in message
    assert not Path(".scalable").exists()


def test_a_forked_child_that_ends_leaves_the_run_to_its_parent() -> None:
    done = workflow(
        "import os, sys\n"
        "from scalable import ScalableSession\n"
        "with ScalableSession.from_yaml() as client:\n"
        "    child = os.fork()\n"
        "    if child == 0: sys.exit(5)\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "    print(client.submit(abs, -4, tag='model').result())\n"
    )
    assert (done.returncode, done.stdout) == (0, "5\n4\n"), done.stderr
    assert [one["kind"] for one in journal()].count("ended") == 1


@pytest.mark.parametrize(
    "spoiled", ["sys.stdout = io.StringIO(); sys.stderr = None", "sys.stdout.close(); sys.stderr.close()"]
)
def test_a_script_may_replace_or_close_its_streams(spoiled: str) -> None:
    done = workflow(f"import io, sys\n{spoiled}\n")
    assert done.returncode == 0, done.stderr
    assert journal()[-1]["status"] == "ok"


def test_a_run_whose_folder_vanishes_goes_on_and_says_that_its_record_is_not_whole() -> None:
    done = workflow(
        "import shutil\n"
        "from scalable import ScalableSession\n"
        "with ScalableSession.from_yaml() as client:\n"
        "    shutil.rmtree('.scalable')\n"
        "    print(client.submit(abs, -4, tag='model').result())\n"
    )
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr
    assert "its end is not in its journal" in done.stderr
    assert "Traceback" not in done.stderr


def test_results_come_in_the_order_of_the_manifest_and_progress_shows_no_bar_where_it_cannot_be_shown() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command("run"), capture_output=True, text=True, timeout=PATIENCE_S, env=environment)
    assert done.returncode == 0, done.stderr
    results = [line.split()[-2:] for line in done.stdout.splitlines()]
    assert results == [["'slow", "one'"], *[["'quick", "one'"]] * 2], "a long name hides none"
    assert "workers" in done.stderr
    assert "?" not in done.stderr
