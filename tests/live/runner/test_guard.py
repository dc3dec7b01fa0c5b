"""The fork guard, in processes of its own since it cannot be removed."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from scalable.errors import ScalableError
from scalable.worker.runner.guard import ForkDenied

PATIENCE_S = 60  # a test that takes longer hangs

HEAD = """\
import json, multiprocessing, os, subprocess, sys, threading
from concurrent.futures import ProcessPoolExecutor
from scalable.worker.runner import guard, stamp
from scalable.worker.runner.guard import ForkDenied
page = stamp.Stamp.create()
stamp.use(stamp.Stamp.attach(os.dup(page.fd)))
told = []
def fork():
    pid = os.fork()
    if not pid: os._exit(0)
    os.waitpid(pid, 0)
def with_threads(function, count=1):
    go = threading.Event()
    threads = [threading.Thread(target=go.wait) for _ in range(count)]
    for thread in threads: thread.start()
    try:
        return function()
    finally:
        go.set()
        for thread in threads: thread.join()
def denied(function):
    try: function()
    except ForkDenied as error: return str(error)
def say(**facts):
    print(json.dumps({"told": told, "counted": page.read().fork_warnings, **facts}))
"""


@dataclass(frozen=True)
class Said:
    facts: dict[str, Any]
    stderr: str
    file: Path

    def line_of(self, text: str) -> int:
        return 1 + next(at for at, line in enumerate(self.file.read_text().splitlines()) if text in line)


@pytest.fixture
def guarded(tmp_path: Path) -> Any:
    def run(body: str, *, policy: str = "deny", allow: tuple[str, ...] = (), on_fork: str = "told.append") -> Said:
        file = tmp_path / "script.py"
        install = f"guard.install({policy!r}, {allow!r}, on_fork={on_fork})\n"
        file.write_text(
            f"{HEAD}{install}if __name__ == '__main__':\n{textwrap.indent(textwrap.dedent(body), '    ')}\n"
        )
        done = subprocess.run(
            [sys.executable, str(file)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
        )
        assert done.returncode == 0, done.stderr
        return Said(json.loads(done.stdout), done.stderr, file)

    return run


def test_a_fork_with_another_thread_is_denied_and_its_place_named(guarded: Any) -> None:
    said = guarded("say(message=with_threads(lambda: denied(fork), 3))")

    line = said.line_of("pid = os.fork()")
    message = said.facts["message"]
    assert message.startswith(f"{said.file}:{line} (fork) wants to fork a process with 4 native threads; ")
    assert all(way in message for way in ("n_jobs=1", '"spawn"', "subprocess", "policies: {fork:"))
    assert said.facts["told"] == [
        {"policy": "deny", "file": str(said.file), "line": line, "function": "fork", "threads": 4, "allowed": False}
    ]
    assert said.facts["counted"] == 1
    assert said.stderr == ""


def test_forks_of_a_process_with_one_thread_pass_silently(guarded: Any) -> None:
    said = guarded("""
        fork()
        with multiprocessing.get_context("fork").Pool(2) as pool:  # it starts its threads after its processes
            found = pool.map(abs, [-1, -2])
        pid, terminal = os.forkpty()
        if not pid: os._exit(0)
        os.waitpid(pid, 0)
        say(found=found)
    """)

    assert (said.facts["told"], said.facts["counted"], said.facts["found"]) == ([], 0, [1, 2])


def test_threads_that_have_just_ended_deny_nothing(guarded: Any) -> None:
    said = guarded("""
        for _ in range(100):
            with_threads(lambda: None, 4)
            fork()
        say()
    """)

    assert said.facts["told"] == []


def test_threads_that_python_does_not_know_count(guarded: Any) -> None:
    said = guarded("""
        import ctypes
        c = ctypes.CDLL(None)
        c.pthread_create(ctypes.byref(ctypes.c_ulong()), None, ctypes.cast(c.pause, ctypes.c_void_p), None)
        say(message=denied(fork), known=threading.active_count())
        sys.stdout.flush()
        os._exit(0)
    """)

    assert said.facts["known"] == 1
    assert "2 native threads" in said.facts["message"]


@pytest.mark.parametrize(
    "way",
    [
        "os.forkpty()",
        "multiprocessing.get_context('fork').Process(target=abs, args=[1]).start()",
        "multiprocessing.get_context('fork').Pool(2)",
        "ProcessPoolExecutor(2, mp_context=multiprocessing.get_context('fork')).submit(abs, 1)",
    ],
)
def test_every_way_to_fork_is_denied_at_the_line_of_the_caller(guarded: Any, way: str) -> None:
    said = guarded(f"""
        def mine():
            {way}
        say(message=with_threads(lambda: denied(mine)))
    """)

    assert said.facts["message"].startswith(f"{said.file}:{said.line_of(way)} (mine) wants to fork")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_start_methods_work_beside_threads(guarded: Any, method: str) -> None:
    said = guarded(f"""
        def work():
            with multiprocessing.get_context({method!r}).Pool(1) as pool:
                return pool.map(abs, [-1, -2])
        say(found=with_threads(work))
    """)

    assert (said.facts["found"], said.facts["told"]) == ([1, 2], [])


def test_subprocesses_work_beside_threads_also_with_a_preexec_function(guarded: Any) -> None:
    said = guarded("""
        def work():
            return [subprocess.check_output(["echo", "x"], text=True, preexec_fn=f) for f in (None, os.getpid)]
        say(found=with_threads(work))
    """)

    assert (said.facts["found"], said.facts["told"]) == (["x\n", "x\n"], [])


@pytest.mark.skipif(find_spec("joblib") is None, reason="needs joblib")
def test_joblib_works_beside_threads_unless_it_is_told_to_fork(guarded: Any) -> None:
    said = guarded("""
        from joblib import Parallel, delayed
        def work(**how):
            return Parallel(n_jobs=2, **how)(delayed(abs)(n) for n in (-1, -2))
        found = with_threads(work)
        say(found=found, message=with_threads(lambda: denied(lambda: work(backend="multiprocessing"))))
    """)

    assert said.facts["found"] == [1, 2]
    assert "wants to fork" in said.facts["message"]


def test_with_a_warning_it_happens_and_is_said_in_one_line(guarded: Any) -> None:
    said = guarded("with_threads(fork)\nwith_threads(fork)\nsay()", policy="warn")

    lines = said.stderr.splitlines()
    assert len([line for line in lines if line.startswith(f"scalable: {said.file}:")]) == 2
    assert "(fork) forked a process with 2 native threads; it may hang; " in lines[0]
    assert [fact["allowed"] for fact in said.facts["told"]] == [True, True]
    assert said.facts["counted"] == 2


def test_where_all_is_allowed_nothing_is_said(guarded: Any) -> None:
    said = guarded("with_threads(fork)\nsay()", policy="allow")

    assert (said.facts["told"], said.facts["counted"]) == ([], 0)
    assert "scalable:" not in said.stderr


def test_an_excepted_module_may_fork_and_is_counted(guarded: Any, tmp_path: Path) -> None:
    package = tmp_path / "loader" / "inner"
    package.mkdir(parents=True)
    for name in (package.parent, package):
        (name / "__init__.py").touch()
    (package / "workers.py").write_text("def go(function):\n    return function()\n")
    (tmp_path / "loaders.py").write_text("def go(function):\n    return function()\n")

    said = guarded(
        """
        from loader.inner import workers
        import loaders
        with_threads(lambda: workers.go(fork))
        say(other=with_threads(lambda: denied(lambda: loaders.go(fork))))
        """,
        allow=("loader.inner",),
    )

    assert [fact["allowed"] for fact in said.facts["told"]] == [True, False]
    assert said.facts["counted"] == 2
    assert said.facts["other"]
    assert "scalable:" not in said.stderr


def test_a_report_that_fails_or_forks_changes_nothing(guarded: Any) -> None:
    body = "say(messages=[with_threads(lambda: denied(fork)) for _ in range(2)])"

    for on_fork in ("lambda facts: 1 / 0", "lambda facts: (told.append(facts), fork())"):
        said = guarded(body, on_fork=on_fork)
        assert all(said.facts["messages"])
        assert said.facts["counted"] == 2


def test_what_swallows_the_error_is_reported_all_the_same(guarded: Any) -> None:
    said = guarded("""
        def work():
            try: fork()
            except Exception: pass
        with_threads(work)
        say()
    """)

    assert len(said.facts["told"]) == 1


def test_a_forked_process_is_guarded_and_counts_but_leaves_the_reports_to_its_parent(guarded: Any) -> None:
    said = guarded("""
        pid = os.fork()
        if not pid:
            os._exit(0 if with_threads(lambda: denied(fork)) and not told else 1)
        say(status=os.waitpid(pid, 0)[1])
    """)

    assert (said.facts["status"], said.facts["told"], said.facts["counted"]) == (0, [], 1)


def test_threads_that_fork_at_the_same_time_are_each_judged(guarded: Any) -> None:
    said = guarded("""
        messages = []
        together = threading.Barrier(4)
        def work():
            together.wait()
            messages.append(denied(fork))
            together.wait()
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        say(messages=messages)
    """)

    assert len(said.facts["messages"]) == 4
    assert all(said.facts["messages"])
    assert len(said.facts["told"]) == 4


def test_it_is_installed_once_and_for_all(guarded: Any) -> None:
    said = guarded("""
        errors = []
        for policy in ("allow", "nonsense"):
            try: guard.install(policy)
            except guard.UsageError as error: errors.append(str(error))
        guard._installed = None
        guard.install("allow")
        say(errors=errors, message=with_threads(lambda: denied(fork)))
    """)

    assert "in place already, with the policy deny" in said.facts["errors"][0]
    assert "choose one of deny, warn, allow" in said.facts["errors"][1]
    assert said.facts["message"], "the hook itself stays"


def test_it_tells_what_is_in_place(guarded: Any) -> None:
    said = guarded("""
        os.environ.pop("GRPC_POLL_STRATEGY", None)
        os.environ.update(GRPC_ENABLE_FORK_SUPPORT="0", OMP_NUM_THREADS="2")
        first = guard.protections()
        import types
        sys.modules["numpy"] = types.ModuleType("numpy")
        sys.modules["numpy"].__version__ = "9.9"
        say(first=first, second=with_threads(guard.protections))
    """)

    first, second = said.facts["first"], said.facts["second"]
    assert (first["guard"], first["allow"], first["native_threads"]) == ("deny", [], 1)
    assert first["grpc"] == {"GRPC_ENABLE_FORK_SUPPORT": "0"}
    assert first["threads"]["OMP_NUM_THREADS"] == "2"
    assert first["python"] == ".".join(map(str, sys.version_info[:3]))
    assert first["scalable"]
    assert first["versions"] == {}, "nothing is imported to be asked"
    assert (second["native_threads"], second["versions"]) == (2, {"numpy": "9.9"})


def test_the_error_is_of_this_package_and_survives_the_way_home() -> None:
    error = ForkDenied("f.py:1 (f) wants to fork")

    assert isinstance(error, ScalableError)
    assert isinstance(error, RuntimeError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
