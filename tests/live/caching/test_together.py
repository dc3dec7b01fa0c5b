"""Threads, processes and Dask workers that ask for the same result at the same time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from scalable.store.caching import cacheable

PATIENCE_S = 60  # a test that takes longer hangs

SLOW = """
import os, sys, time
from pathlib import Path
from scalable.store.caching import cacheable

@cacheable(cache_dir="cache")
def slow(x):
    with open("calls", "a") as calls:
        calls.write(f"{x}\\n")
    deadline = time.monotonic() + 30
    while not Path("go").exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    return x * x
"""


def script(folder: Path, rest: str) -> Path:
    path = folder / "script.py"
    path.write_text(SLOW + textwrap.dedent(rest))
    return path


@contextmanager
def started(path: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(path), *arguments]
    with subprocess.Popen(command, cwd=path.parent, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_calls(folder: Path, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(calls(folder)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def calls(folder: Path) -> list[str]:
    path = folder / "calls"
    return path.read_text().split() if path.exists() else []


def test_threads_compute_a_result_once(tmp_path: Path) -> None:
    count: list[int] = []
    begin = threading.Barrier(8)

    @cacheable(cache_dir=tmp_path)
    def slow(x: int) -> int:
        count.append(x)
        time.sleep(0.2)
        return x * x

    def ask(number: int) -> int:
        begin.wait()
        return slow(number % 2)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == [0, 1] * 4
    assert sorted(count) == [0, 1]


def test_processes_compute_a_result_once(tmp_path: Path) -> None:
    path = script(tmp_path, "print(slow(3), slow.cache_info().hits)")
    with started(path) as one, started(path) as other, started(path) as third:
        wait_for_calls(tmp_path, 1)
        time.sleep(0.5)
        (tmp_path / "go").touch()
        printed = sorted(process.communicate(timeout=PATIENCE_S)[0] for process in (one, other, third))

    assert printed == ["9 0\n", "9 1\n", "9 1\n"]
    assert calls(tmp_path) == ["3"]


def test_who_waits_takes_over_when_the_computing_process_is_killed(tmp_path: Path) -> None:
    path = script(tmp_path, "print(slow(3))")
    with started(path) as first:
        wait_for_calls(tmp_path, 1)
        with started(path) as second:
            time.sleep(0.5)
            assert calls(tmp_path) == ["3"]
            first.kill()
            wait_for_calls(tmp_path, 2)
            (tmp_path / "go").touch()
            assert second.communicate(timeout=PATIENCE_S)[0] == "9\n"
    assert [file.suffix for file in (tmp_path / "cache").rglob("*") if file.is_file()] == [".pickle"]


def test_children_that_outlive_the_computing_process_keep_nobody_waiting(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        @cacheable(cache_dir="cache")
        def forking(x):
            if not Path("child").exists():
                child = os.fork()
                if not child:
                    time.sleep(600)
                    os._exit(0)
                Path("child").write_text(str(child))
                time.sleep(600)
            return x * x

        print(forking(3), flush=True)
        """,
    )
    child = tmp_path / "child"
    with started(path) as first:
        deadline = time.monotonic() + PATIENCE_S
        while not child.exists() or not child.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        first.kill()
    try:
        with started(path) as second:
            assert second.communicate(timeout=PATIENCE_S)[0] == "9\n"
    finally:
        os.kill(int(child.read_text()), signal.SIGKILL)


def test_a_process_that_is_forked_while_a_thread_computes_does_not_wait_for_it(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        import threading

        threading.Thread(target=slow, args=(3,), daemon=True).start()
        while not Path("calls").exists():
            time.sleep(0.01)
        if not os.fork():
            Path("forked").touch()
            print(slow(3), slow(4), flush=True)
            os._exit(0)
        while not Path("forked").exists():
            time.sleep(0.01)
        Path("go").touch()
        os.wait()
        """,
    )
    with started(path) as process:
        assert process.communicate(timeout=PATIENCE_S)[0] == "9 16\n"


def test_recompute_waits_for_nobody(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        if sys.argv[1] == "first":
            print(slow(3))
        else:
            slow.__wrapped__.__globals__["Path"]("go").touch()
            print(slow.recompute(3))
        """,
    )
    with started(path, "first") as first:
        wait_for_calls(tmp_path, 1)
        first.send_signal(signal.SIGSTOP)
        with started(path, "second") as second:
            assert second.communicate(timeout=PATIENCE_S)[0] == "9\n"
        first.send_signal(signal.SIGCONT)
        assert first.communicate(timeout=PATIENCE_S)[0] == "9\n"


SPAWNED = """
import multiprocessing

if __name__ == "__main__":
    Path("go").touch()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.map(slow, [1, 2, 1, 2]), slow(1), slow.cache_info().hits)
"""


def test_spawned_processes_share_results_with_their_parent(tmp_path: Path) -> None:
    with started(script(tmp_path, SPAWNED)) as process:
        assert process.communicate(timeout=PATIENCE_S)[0] == "[1, 4, 1, 4] 1 1\n"
    assert sorted(calls(tmp_path)) == ["1", "2"]


ON_DASK = """
if __name__ == "__main__":
    from distributed import Client, LocalCluster

    Path("go").touch()
    cluster = LocalCluster(n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None)
    with cluster, Client(cluster) as client:
        futures = [client.submit(slow, number % 3, pure=False) for number in range(12)]
        print(sum(client.gather(futures)), client.submit(slow.recompute, 5).result(), slow(2), slow.cache_info().hits)
"""


def test_functions_of_a_script_are_cached_on_dask_workers(tmp_path: Path) -> None:
    path = script(tmp_path, ON_DASK)
    for _ in range(2):
        with started(path) as process:
            assert process.communicate(timeout=PATIENCE_S)[0] == "20 25 4 1\n"
    assert sorted(calls(tmp_path)) == ["0", "1", "2", "5", "5"]
