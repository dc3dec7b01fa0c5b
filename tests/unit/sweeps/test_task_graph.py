"""Which jobs of tasks over axes can start, what they are given, and which never start."""

from __future__ import annotations

import doctest
from typing import Any

import pytest

from scalable.manifest.models import Task
from scalable.sweeps import task_graph
from scalable.sweeps.task_graph import TaskGraph, TaskJob


def graph(**tasks: dict[str, Any]) -> TaskGraph:
    return TaskGraph({name: Task(component="c", run="m:f", **more) for name, more in tasks.items()})


def names(jobs: list[TaskJob]) -> list[str]:
    return [job.name for job in jobs]


def finish(whole: TaskGraph, task: str) -> list[TaskJob]:
    """Finish all jobs of a task with their own names as results, and return what can start then."""
    return [able for job in whole.jobs[task] for able in whole.finish(job, job.name)]


def test_the_examples_in_its_text_are_true() -> None:
    assert doctest.testmod(task_graph).failed == 0


def test_a_job_of_the_same_axes_gets_the_result_at_its_own_coordinates_as_soon_as_it_is_there() -> None:
    whole = graph(a={"over": {"s": ["x", "y"], "n": 2}}, b={"over": {"s": ["x", "y"], "n": 2}, "needs": ["a"]})
    assert names(whole.ready()) == ["a[s=x,n=0]", "a[s=x,n=1]", "a[s=y,n=0]", "a[s=y,n=1]"]
    [job] = whole.finish(whole.jobs["a"][2], "seven")
    assert job.name == "b[s=y,n=0]"
    assert whole.arguments(job) == {"s": "y", "n": 0, "a": "seven"}


def test_a_task_without_an_axis_gets_all_results_by_value_in_order_once_all_are_there() -> None:
    whole = graph(
        a={"over": {"s": ["x", "y"], "n": 2}},
        mean={"over": {"s": ["x", "y"]}, "needs": ["a"]},
        table={"needs": ["a", "mean"]},
    )
    jobs = whole.jobs["a"]
    assert whole.finish(jobs[0], 10) == []
    [mean_x] = whole.finish(jobs[1], 11)
    assert whole.arguments(mean_x) == {"s": "x", "a": {0: 10, 1: 11}}
    assert whole.finish(jobs[2], 20) == []
    [mean_y] = whole.finish(jobs[3], 21)
    assert whole.finish(mean_y, 20.5) == []
    [table] = whole.finish(mean_x, 10.5)
    assert whole.arguments(table) == {"a": {"x": {0: 10, 1: 11}, "y": {0: 20, 1: 21}}, "mean": {"x": 10.5, "y": 20.5}}
    assert list(whole.arguments(table)["mean"]) == ["x", "y"]
    whole.finish(table, "done")
    assert whole.by_task()["table"] == "done"
    assert whole.by_task()["mean"] == {"x": 10.5, "y": 20.5}


def test_a_task_with_axes_of_its_own_gets_the_same_result_everywhere() -> None:
    whole = graph(data={}, fit={"over": {"n": 3}, "needs": ["data"], "arguments": {"k": 1}})
    assert names(whole.ready()) == ["data"]
    able = whole.finish(whole.jobs["data"][0], "rows")
    assert [whole.arguments(job) for job in able] == [{"k": 1, "n": n, "data": "rows"} for n in range(3)]


def test_a_subset_of_the_values_of_an_axis_is_enough_even_if_it_is_written_otherwise() -> None:
    whole = graph(a={"over": {"y": "2000..2009"}}, b={"over": {"y": [2005.0]}, "needs": ["a"]})
    [job] = finish(whole, "a")
    assert whole.given(job, "a") == "a[y=2005]"


def test_a_job_that_fails_stops_only_what_needs_it() -> None:
    whole = graph(
        a={"over": {"s": ["x", "y"]}},
        b={"over": {"s": ["x", "y"]}, "needs": ["a"]},
        c={"over": {"s": ["x", "y"]}, "needs": ["b"]},
        total={"needs": ["b"]},
    )
    x, y = whole.jobs["a"]
    lost = whole.fail(x)
    assert {(job.name, needed) for job, needed in lost} == {
        ("b[s=x]", "a[s=x]"), ("c[s=x]", "b[s=x]"), ("total", "b[s=x]")
    }  # fmt: skip
    [b] = whole.finish(y)
    assert names(whole.finish(b)) == ["c[s=y]"]
    assert whole.fail(y) == [], "nothing waits for it any more"


def test_two_needs_that_both_fail_stop_a_job_once() -> None:
    whole = graph(a={}, b={}, both={"needs": ["a", "b"]})
    assert names([job for job, _ in whole.fail(whole.jobs["a"][0])]) == ["both"]
    assert whole.fail(whole.jobs["b"][0]) == []


def test_files_that_a_job_is_given_are_told_apart_by_their_marks() -> None:
    whole = graph(a={"over": {"n": 2}}, b={"over": {"n": 2}, "needs": ["a"]}, c={"needs": ["a"]})
    zero, one = whole.jobs["a"]
    [first] = whole.finish(zero, "path", mark="m0")
    [second, last] = whole.finish(one, "path")
    assert whole.reads(first) == (("m0",),)
    assert whole.reads(second) == ()
    assert whole.reads(last) == (("m0", None),)


@pytest.mark.parametrize("size", [300])
def test_many_that_need_many_do_not_make_an_edge_for_each_pair(size: int) -> None:
    whole = graph(a={"over": {"x": size}}, b={"over": {"y": size}, "needs": ["a"]})
    assert len(finish(whole, "a")) == size
    [group] = [group for groups in whole.groups.values() for group in groups.values()]
    assert (len(group.members), len(group.waiting)) == (size, size)
