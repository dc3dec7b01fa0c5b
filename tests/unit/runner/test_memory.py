"""One function divides a worker's memory among its jobs, itself and what it may never exceed."""

from __future__ import annotations

import pytest

from scalable.worker.runner import memory
from scalable.worker.runner.memory import MemoryLimits, ReapedChildren, TreePeak, memory_limits, told_in_pod

GIB, MIB = 2**30, 2**20


def test_jobs_may_use_what_the_worker_leaves_of_its_limit() -> None:
    limits = memory_limits(8 * GIB, own=150 * MIB)
    assert limits == MemoryLimits(jobs=int(8 * GIB * 0.98) - 150 * MIB, worker=8 * GIB, together=10 * GIB)


def test_a_limit_for_jobs_alone_is_theirs_whole() -> None:
    assert memory_limits(GIB, own=2 * GIB, apart=True).jobs == GIB


@pytest.mark.parametrize("limit", [64 * MIB, GIB, 24 * GIB])
def test_a_job_dies_before_its_worker_and_a_worker_before_its_pod(limit: int) -> None:
    told = told_in_pod(limit)
    limits = memory_limits(told, own=10 * MIB)
    assert 0 < limits.jobs < limits.worker == told < limit and limits.worker < limits.together


def test_a_worker_in_a_pod_is_told_less_than_the_pod_may_use_and_something() -> None:
    assert told_in_pod(8 * GIB) == 8 * GIB - int(8 * GIB * 0.03)
    assert told_in_pod(256 * MIB) == 224 * MIB
    assert told_in_pod(20 * MIB) == 10 * MIB


def test_of_several_processes_shared_pages_count_once_and_are_told_apart_only_when_the_sum_grows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []

    def proportional(pid: int) -> int:
        looked.append(pid)
        return 40 * MIB

    monkeypatch.setattr(memory, "proportional", proportional)
    peak = TreePeak()
    assert peak.note(60 * MIB, [1]) == 60 * MIB
    assert peak.note(100 * MIB, [1, 2]) == 80 * MIB
    assert peak.note(101 * MIB, [1, 2]) == 80 * MIB
    assert looked == [1, 2]
    assert peak.note(150 * MIB, [1, 2, 3]) == 120 * MIB
    assert peak.note(90 * MIB, [1]) == 120 * MIB


def test_an_ended_child_counts_if_it_was_larger_than_this_process_and_than_all_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = iter([10, 300, 300, 350, 400])
    monkeypatch.setattr(memory, "largest_child", lambda: next(sizes) * MIB)
    children = ReapedChildren()
    assert children.grown(100 * MIB) == 300 * MIB
    assert children.grown(100 * MIB) == 0, "it is the same one, or none that was larger"
    assert children.grown(350 * MIB) == 0, "a child begins as its parent"
    assert children.grown(100 * MIB) == 400 * MIB
