"""What a runner's environment is made of, and that real libraries obey it."""

from __future__ import annotations

import pytest

from scalable.manifest.policies import Grpc, Policies
from scalable.worker.runner.environment import THREAD_VARIABLES, child_environment


def test_thread_pools_have_the_size_of_the_slot_whatever_a_launcher_set() -> None:
    base = {"PATH": "/bin", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "64"}

    made = child_environment(base, cpus=4)

    assert {made[name] for name in THREAD_VARIABLES} == {"4"}
    assert made["PATH"] == "/bin"
    assert base["OMP_NUM_THREADS"] == "1", "what was given is not changed"


@pytest.mark.parametrize(("cpus", "threads"), [(1, "1"), (0.5, "1"), (0, "1"), (2.9, "2"), (16, "16")])
def test_a_part_of_a_cpu_is_no_thread_but_one_there_always_is(cpus: float, threads: str) -> None:
    assert child_environment({}, cpus=cpus)["OMP_NUM_THREADS"] == threads


def test_what_the_component_says_wins_over_all() -> None:
    extra = {"OMP_NUM_THREADS": "3", "GRPC_ENABLE_FORK_SUPPORT": "1", "MALLOC_TRIM_THRESHOLD_": "65536", "MODEL": "x"}

    made = child_environment({"MODEL": "y"}, cpus=8, extra=extra)

    assert {name: made[name] for name in extra} == extra
    assert made["MKL_NUM_THREADS"] == "8"


def test_grpc_is_told_what_the_manifest_says_and_nothing_of_what_stood_there_before() -> None:
    base = {"GRPC_ENABLE_FORK_SUPPORT": "1", "GRPC_POLL_STRATEGY": "poll", "GRPC_VERBOSITY": "debug"}

    made = child_environment(base, cpus=1, grpc=Policies().fork.grpc.variables())

    assert (made["GRPC_ENABLE_FORK_SUPPORT"], "GRPC_POLL_STRATEGY" in made) == ("0", False)
    assert made["GRPC_VERBOSITY"] == "debug"
    assert child_environment(base, cpus=1) == made, "the default is the manifest's"

    chosen = child_environment(base, cpus=1, grpc=Grpc(support=True, poll="epoll1").variables())

    assert (chosen["GRPC_ENABLE_FORK_SUPPORT"], chosen["GRPC_POLL_STRATEGY"]) == ("1", "epoll1")


def test_dasks_setting_for_the_allocator_is_dropped_and_a_persons_is_kept() -> None:
    assert "MALLOC_TRIM_THRESHOLD_" not in child_environment({"MALLOC_TRIM_THRESHOLD_": "65536"}, cpus=1)
    assert child_environment({"MALLOC_TRIM_THRESHOLD_": "9"}, cpus=1)["MALLOC_TRIM_THRESHOLD_"] == "9"


def test_dasks_setting_is_still_the_one_that_is_recognised() -> None:
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    assert dask.config.get("distributed.nanny.pre-spawn-environ")["MALLOC_TRIM_THRESHOLD_"] == 65536
