"""One worker by itself: its command line, its exits, its notice, its figures."""

from __future__ import annotations

import pytest
from dask.utils import funcname

from scalable.worker.guarded import Guarded
from scalable.worker.main import threads_of
from scalable.worker.options import WorkerOptions


@pytest.mark.parametrize(
    "options",
    [
        WorkerOptions("tcp://10.0.0.1:8786", "demeter-0", {"demeter": 1.0}),
        WorkerOptions(
            "tls://login:8786",
            "-größe 1/2=x-3",
            {"-größe 1/2=x": 2.0, "a b": 0.5, "=": 1.0},
            threads=2,
            memory=2**33,
            handout="/a folder/tls",
            interface="ib0",
            host="10.0.0.2",
            folder="/project",
            preload="--odd.py",
            scratch="/tmp",
            connect_within=1.5,
            grace=0.0,
            parent=1,
        ),
    ],
)
def test_the_command_line_says_all_and_can_be_read_back(options: WorkerOptions) -> None:
    assert WorkerOptions.parse(options.arguments()) == options


@pytest.mark.parametrize(("told", "threads"), [("4", 4), ("4,2", 4), ("", 1), ("0", 1), ("many", 1)])
def test_a_worker_starts_whatever_openmp_is_told(told: str, threads: int) -> None:
    assert threads_of(told) == threads


def test_a_guarded_function_has_its_own_name_for_dask() -> None:
    assert funcname(Guarded(threads_of)) == "threads_of"
