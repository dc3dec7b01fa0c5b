"""Evidence from real processes that are stuck in every way we know of, and from those that cannot be looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalable.worker.runner import evidence, stacks
from scalable.worker.runner.evidence import ProcessLine
from scalable.worker.runner.stacks import CodeOrigin, StackFrame, Thread


def a_thread(*frames: tuple[str, str], pid: int = 1, active: bool = False) -> Thread:
    made = tuple(StackFrame.of(name, file, 7) for name, file in frames)
    return Thread(pid, "MainThread", True, active, made)


@pytest.mark.parametrize(
    ("file", "short", "origin"),
    [
        ("/usr/lib/python3.11/threading.py", "threading.py", CodeOrigin.PLUMBING),
        ("/opt/py/lib/python3.13t/multiprocessing/pool.py", "multiprocessing/pool.py", CodeOrigin.PLUMBING),
        ("/v/lib/python3.11/site-packages/cleanlab/filter.py", "cleanlab/filter.py", CodeOrigin.LIBRARY),
        (
            "/v/lib/python3.11/site-packages/joblib/externals/loky/x.py",
            "joblib/externals/loky/x.py",
            CodeOrigin.PLUMBING,
        ),
        ("/usr/lib/python3/dist-packages/numpy/core.py", "numpy/core.py", CodeOrigin.LIBRARY),
        ("/somewhere/src/scalable/worker/runner/child.py", "child.py", CodeOrigin.PLUMBING),
        ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>", CodeOrigin.PLUMBING),
        ("/nowhere/work.py", "work.py", CodeOrigin.USER),
        ("<string>", "<string>", CodeOrigin.USER),
    ],
)
def test_files_are_named_from_their_package_on_and_told_apart(file: str, short: str, origin: CodeOrigin) -> None:
    assert (stacks.short(file), stacks.origin(file)) == (short, origin)


def test_a_file_of_a_package_is_named_with_it(tmp_path: Path) -> None:
    (tmp_path / "finetune" / "deep").mkdir(parents=True)
    for folder in (tmp_path / "finetune", tmp_path / "finetune" / "deep"):
        (folder / "__init__.py").touch()
    assert stacks.short(str(tmp_path / "finetune" / "deep" / "cleaning.py")) == "finetune/deep/cleaning.py"


def test_the_nearest_code_of_the_user_is_named_as_the_caller() -> None:
    site = "/v/lib/python3.11/site-packages"
    found = a_thread(
        ("wait", "/lib/python3.11/threading.py"), ("filter", f"{site}/cleanlab/f.py"), ("clean", "/w/c.py")
    )
    assert found.place() == "wait in threading.py:7, called from c.py:7 (clean)"
    assert a_thread(("fit", f"{site}/x/f.py")).place() == "fit in x/f.py:7"
    assert a_thread().place() == ""


def a_line(pid: int, parent: int, state: str = "waiting") -> ProcessLine:
    return ProcessLine(pid, parent, state, "python", 0, 0.0, 1, "")


WORK = ("train", "/w/work.py")

IDLE = (
    ("get", "/lib/python3.11/multiprocessing/queues.py"),
    ("_bootstrap", "/lib/python3.11/multiprocessing/process.py"),
)

TRACKER = (("main", "/lib/python3.11/multiprocessing/resource_tracker.py"), ("<module>", "<string>"))
FORK_SERVER = (("main", "/lib/python3.11/multiprocessing/forkserver.py"), ("<module>", "<string>"))


@pytest.mark.parametrize(
    ("threads", "states", "pid"),
    [
        ((a_thread(WORK, pid=1), a_thread(WORK, pid=2), a_thread(WORK, pid=3)), {}, 3),
        ((a_thread(WORK, pid=1), a_thread(WORK, pid=2), a_thread(*IDLE, WORK, pid=3)), {}, 2),
        ((a_thread(WORK, pid=1, active=True), a_thread(WORK, pid=2), a_thread(WORK, pid=3)), {}, 1),
        ((a_thread(WORK, pid=1), a_thread(WORK, pid=2), a_thread(WORK, pid=3)), {2: "stopped"}, 2),
        ((a_thread(WORK, pid=1), a_thread(pid=2)), {}, 1),
    ],
    ids=[
        "the deepest",
        "not an idle one of a pool",
        "one that computes",
        "one that is stopped",
        "one that has a stack",
    ],
)
def test_the_process_that_the_others_wait_for_is_guilty(
    threads: tuple[Thread, ...], states: dict[int, str], pid: int
) -> None:
    lines = [a_line(number, number - 1, states.get(number, "waiting")) for number in (1, 2, 3)]
    found = evidence.guilty(lines, threads)
    assert found is not None
    assert found.pid == pid
    assert evidence.guilty(lines, ()) is None


@pytest.mark.parametrize("helper", [TRACKER, FORK_SERVER], ids=["resource tracker", "fork server"])
def test_a_helper_of_multiprocessing_is_not_guilty_of_what_hangs_beside_it(helper: tuple[tuple[str, str], ...]) -> None:
    lines = [a_line(1, 0), a_line(2, 1), a_line(3, 1)]
    hung = a_thread(WORK, *IDLE, pid=3)
    assert evidence.guilty(lines, (a_thread(WORK, pid=1), a_thread(*helper, pid=2), hung)) is hung


def test_code_given_on_the_command_line_is_the_users() -> None:
    assert a_thread(("<module>", "<string>")).works


def test_what_faulthandler_tells_is_read_with_its_first_thread_last() -> None:
    text = (
        "Thread 0x00007f01 [worker] (most recent call first):\n"
        '  File "/w/pool.py", line 3 in serve\n'
        "\n"
        "Current thread 0x00007f02 (most recent call first):\n"
        '  File "/w/work.py", line 12 in train\n'
        '  File "/w/work.py", line 20 in <module>\n'
        "garbage\n"
    )
    first, last = stacks.from_faulthandler(5, text)
    assert (first.main, last.main) == (False, True)
    assert last.place() == "train in work.py:12"
    assert stacks.from_faulthandler(5, "") == []
