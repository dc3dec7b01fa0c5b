"""Tasks over axes in a manifest: what they mean, and what is refused at which place."""

# ruff: noqa: E501 - the table of cases is read line by line

from __future__ import annotations

import pytest

from scalable.axes import count
from scalable.manifest import load_text
from scalable.manifest.models import Task
from tests.helpers.manifest.refusals import HEAD, only, refused

COMPONENT = "components: {c: {}}\n"


def tasks(text: str, **env: str) -> dict[str, Task]:
    return load_text(HEAD + COMPONENT + f"tasks:\n{text}", env=env).manifest.tasks


def test_axes_are_lists_ranges_and_numbers() -> None:
    task = tasks("  t: {component: c, run: m:f, over: {scenario: [low, high], year: 2025..2060, member: 3}}")["t"]
    assert task.over["year"][0] == 2025 and task.over["year"][-1] == 2060
    assert count(task.over) == 2 * 36 * 3


def test_axes_may_come_from_variables() -> None:
    text = '  t: {component: c, run: m:f, over: {year: "${YEARS}", member: "${N}", a: [1, "${A}"]}}'
    assert tasks(text, YEARS="2025..2026", N="2", A="5")["t"].over == {
        "year": (2025, 2026), "member": (0, 1), "a": (1, 5)
    }  # fmt: skip


def test_results_of_a_task_over_axes_are_kept_unless_it_says_otherwise() -> None:
    text = (
        "  a: {component: c, run: m:f, over: {y: 2}}\n"
        "  b: {component: c, run: m:f, over: {y: 2}, cache: false}\n"
        "  d: {component: c, run: m:f}\n"
    )
    assert [task.cache for task in tasks(text).values()] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "code", "path", "says", "remedy"),
    [
        ("  t: {component: c, run: m:f, over: {}}", "bad-value", "tasks.t.over", "there are no axes", "2025..2060"),
        ("  t: {component: c, run: m:f, over: 5}", "bad-value", "tasks.t.over", "not a mapping of axes", "2025..2060"),
        ("  t: {component: c, run: m:f, over: {y: []}}", "bad-value", "tasks.t.over.y", "has no values", "write a list"),
        (
            "  t: {component: c, run: m:f, over: {y: 2060..2025}}",
            "bad-value", "tasks.t.over.y", "runs backwards", "write 2025..2060",
        ),
        (
            "  t: {component: c, run: m:f, over: {y: [1, 2, 1]}}",
            "bad-value", "tasks.t.over.y[2]", "1 is listed twice", "remove one",
        ),
        (
            "  t: {component: c, run: m:f, over: {a: 1000, b: 1000}}",
            "too-many-jobs", "tasks.t.over", "1,000,000 combinations are more than the 100,000 jobs", "leave an axis out",
        ),
        ("  t: {component: c, over: {y: 2}}", "over-without-run", "tasks.t.over", "say what to run", "write run:"),
        (
            "  t: {component: c, run: m:f, over: {y: 2}, arguments: {y: 1}}",
            "two-values", "tasks.t.over.y", "both an axis and an argument", "rename",
        ),
        (
            "  y: {component: c, run: m:f}\n  t: {component: c, run: m:f, over: {y: 2}, needs: [y]}",
            "two-values", "tasks.t.over.y", "both an axis and a task", "rename",
        ),
        (
            "  a: {component: c, run: m:f, over: {y: 2025..2030}}\n"
            "  t: {component: c, run: m:f, over: {y: [2025, 2031, 2040]}, needs: [a]}",
            "missing-coordinate", "tasks.t.over.y", "a is not computed for y 2031, 2040", "add them to tasks.a.over.y",
        ),
        (
            "  t: {component: c, run: m:f, over: {y: 2}, outputs: {o: 'out/{yaer}.nc'}}",
            "unknown-axis", "tasks.t.outputs.o", "'yaer' is no axis", "choose one of y",
        ),
        (
            "  t: {component: c, run: m:f, outputs: {o: 'out/{y}.nc'}}",
            "unknown-axis", "tasks.t.outputs.o", "'y' is no axis", "the task has no axes",
        ),
        (
            "  t: {component: c, run: m:f, over: {a: 2, b: 2}, outputs: {o: 'out/{a}.nc'}}",
            "same-output", "tasks.t.outputs.o", "the same file for every b", "add {b}",
        ),
        (
            "  t: {component: c, run: m:f, over: {a: [x]}, outputs: {o: 'out/{a:d}.nc'}}",
            "bad-value", "tasks.t.outputs.o", "cannot be filled in", "{year}",
        ),
        (
            "  t: {component: c, run: m:f, over: {a: 2}, outputs: {o: 'out/{a'}}",
            "bad-value", "tasks.t.outputs.o", "is not an output", "write file, dir or a path",
        ),
        (
            "  t: {component: c, run: m:f, over: {a: 2}, outputs: {o: 'out/{}.nc'}}",
            "bad-value", "tasks.t.outputs.o", "is not an output", "write file, dir or a path",
        ),
        (
            "  t: {component: c, run: m:f, outputs: {o: out/a.nc}, arguments: {o: 1}}",
            "two-values", "tasks.t.outputs.o", "is also an argument", "rename",
        ),
        (
            "  s: {component: c, run: m:f, outputs: {o: out/a.nc}}\n  t: {component: c, run: m:f, outputs: {o: out/a.nc}}",
            "same-output", "tasks.t.outputs.o", "also written by tasks.s.outputs.o", "rename",
        ),
        (
            "  a: {component: c, run: m:f, over: {y: 2}, needs: [b]}\n  b: {component: c, run: m:f, over: {y: 2}, needs: [a]}",
            "circular-needs", "tasks.a.needs", "need each other", "remove one",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(text: str, code: str, path: str, says: str, remedy: str) -> None:
    issue = only(refused(HEAD + COMPONENT + f"tasks:\n{text}"))
    assert (issue.code, issue.path) == (code, path)
    assert says in issue.message
    assert remedy in issue.remedy
    assert issue.place.line > 3
