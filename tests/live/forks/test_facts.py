"""Why forks with threads are refused: each danger as it is, and that the guard and the right way avoid it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from scalable import proc
from scalable.worker.runner.environment import child_environment
from tests.helpers.paths import ROOT

GIVEN_S = 90.0  # a scene takes 3 to 20 s; one that hangs itself has failed


@cache
def scene(name: str, grpc: str = "0") -> Mapping[str, Any]:
    """What became of everything that a scene tried."""
    with tempfile.TemporaryDirectory() as folder:
        notes, output = Path(folder) / "notes", Path(folder) / "output"
        with output.open("w") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.helpers.forks.scenes", name, str(notes)],
                cwd=ROOT,
                env=child_environment(os.environ, cpus=2, grpc={"GRPC_ENABLE_FORK_SUPPORT": grpc}),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        try:
            process.wait(GIVEN_S)
        except subprocess.TimeoutExpired:
            pass  # the notes tell how far it came
        finally:
            proc.kill_tree(process.pid)
            process.wait()
        lines = notes.read_text().splitlines() if notes.exists() else []
        found: dict[str, Any] = {}
        for line in lines:
            found |= json.loads(line)
        return found | {"said": output.read_text(errors="replace")[-2000:]}


def needs(*modules: str) -> pytest.MarkDecorator:
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


@pytest.mark.parametrize("lock", ["python lock", "buffered writer", "import lock", "C mutex", "thread pool"])
def test_a_child_hangs_that_needs_what_another_thread_had_at_the_fork(lock: str) -> None:
    found = scene("locks")
    assert found.get(lock) == "hung", found


def test_the_locks_of_logging_are_renewed_in_a_child() -> None:
    assert scene("locks").get("logging lock") == "ended", scene("locks")


def test_with_the_guard_such_a_fork_is_denied_at_once_and_a_new_program_works() -> None:
    found = scene("locks")
    assert found["guard"].startswith("denied after 0."), found
    assert found["spawn"] == 3


@needs("xgboost", "numpy")
def test_xgboost_hangs_in_a_child_where_both_sides_train_with_threads_and_the_guard_denies_it() -> None:
    found = scene("xgboost")

    assert found.get("parent 2, child 2") == "hung", found
    assert found["parent 1, child 2"] == "ended"
    assert found["parent 2, child 1"] == "ended"
    assert found["guard"].startswith("denied after 0."), found


@needs("grpc")
def test_without_fork_support_grpc_hangs_in_a_child_that_calls_it_and_the_guard_denies_it() -> None:
    found = scene("grpc", "0")

    assert found.get("child calls") == "hung", found
    assert found["child does not"] == "ended"
    assert found["spawn"] == 3
    assert found["guard"].startswith("denied after 0."), found


@needs("grpc")
def test_with_fork_support_a_child_hangs_or_dies_even_if_it_never_calls_grpc() -> None:
    """One bad child in 300 is required; usually it is the first. The fork itself may hang too: then it is not told."""
    found = scene("grpc_forks", "1")

    assert "forks" in found, found
    assert found.get("child", "hung in os.fork") not in ("ended", "all ended"), found


@needs("cleanlab", "grpc")
def test_label_cleaning_hangs_with_a_pool_beside_grpc_and_neither_in_process_nor_under_the_guard() -> None:
    """A hang within 40 calls is required of each pool; usually it is the first call."""
    found = scene("cleaning", "1")

    assert found.get("2 workers") == "hung", found
    assert found.get("8 workers") == "hung", found
    assert len(set(found["in_process"])) == 1
    for workers in (2, 8):
        denied = found[f"{workers} workers, guard"]
        assert denied.startswith("denied after "), found
        assert "cleanlab/filter.py" in denied
        assert "(find_label_issues)" in denied
    assert found["guarded_in_process"] == found["in_process"][0] > 100
    assert found["removed"], "cleaning.py passes n_jobs=1"
    assert found["careless"].startswith("denied after "), found
