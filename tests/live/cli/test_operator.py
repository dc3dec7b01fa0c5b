"""What operators do about sessions that are over, cannot be asked, or are not unique: from journals and the store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from scalable.observe import RunFolder
from tests.helpers.cli.commands import Answer
from tests.helpers.cli.operator import RUNS, a_story
from tests.helpers.observe.builders import a_run

PATIENCE_S = 60.0  # an upper bound against hanging, not a measure

MODELS = """
import os, sys
def first(number, scale=1):
    print("in", os.getcwd(), "with", number)
    if number < 0:
        raise ValueError(f"{number * scale} is negative")
    return [number, os.getpid()]
def leaves(): sys.exit(3)
"""


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run that failed, with what it did kept as the session keeps it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCALABLE_RUNS_DIR", raising=False)
    project = tmp_path / "project"
    project.mkdir()
    (project / "models.py").write_text(MODELS)
    (project / "scalable.yaml").write_text("version: 1\nproject: {name: lab}\n")
    return a_run(RUNS, *a_story(), manifest=str(project / "scalable.yaml"), cwd=str(project))


def keep(folder: RunFolder, run: str, call: str) -> None:
    """Pickle a call of the project's code in a process that can import it."""
    code = f"""
        import models, sys
        from pathlib import Path
        from scalable.worker.runner.calls import Call
        from scalable.worker.runner.wire import pack
        Path(sys.argv[1]).write_bytes(pack({call}))
    """
    folder.works.mkdir(exist_ok=True)
    path = folder.work(run).absolute()
    subprocess.run([sys.executable, "-c", dedent(code), str(path)], cwd="project", check=True, timeout=PATIENCE_S)


def debug(*arguments: str, stdin: str = "") -> Answer:
    command = [sys.executable, "-m", "scalable", "debug", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=PATIENCE_S)
    return Answer(done.returncode, done.stdout, done.stderr)


def test_a_run_that_raised_raises_again_in_the_foreground(broken: RunFolder) -> None:
    keep(broken, "first", "(models.first, (), {'number': -3})")
    shown = debug("first")
    assert shown.status == 1
    assert shown.out == f"in {Path('project').resolve()} with -3\n"
    assert "ValueError: -3 is negative" in shown.err
    assert 'models.py", line 6, in first' in shown.err
    assert "cli/commands/debug.py" not in shown.err


def test_the_traceback_of_a_task_begins_in_its_function(broken: RunFolder) -> None:
    keep(broken, "first", "(Call('models:first', False, ()), (), {'number': -3})")
    shown = debug("first")
    assert "ValueError: -3 is negative" in shown.err
    assert [Path(line.split('"')[1]).name for line in shown.err.splitlines() if "  File " in line] == ["models.py"]


def test_a_run_whose_error_does_not_come_again_shows_its_result(broken: RunFolder) -> None:
    keep(broken, "first", "(models.first, (7,), {'scale': 2})")
    shown = debug("first", "--format", "json")
    assert shown.status == 0
    assert '"result"' in shown.out and "finished in" in shown.err


def test_the_debugger_is_entered_where_the_error_was_raised(broken: RunFolder) -> None:
    keep(broken, "first", "(models.first, (), {'number': -3})")
    shown = debug("first", "--pdb", stdin="p number * 1000\nq\n")
    assert shown.status == 1
    assert "-3000" in shown.out


def test_a_run_that_leaves_the_process_is_a_failure_like_others(broken: RunFolder) -> None:
    keep(broken, "first", "(models.leaves, (), {})")
    shown = debug("first")
    assert shown.status == 1 and "SystemExit: 3" in shown.err


def test_a_run_whose_code_is_gone_says_what_is_missing(broken: RunFolder) -> None:
    keep(broken, "first", "(models.first, (), {'number': -3})")
    Path("project/models.py").unlink()
    shown = debug("first")
    assert shown.status == 1 and "No module named 'models'" in shown.err and "Traceback" not in shown.err
