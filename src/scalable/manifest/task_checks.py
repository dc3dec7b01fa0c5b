"""Checks of tasks: the names they refer to, circles among their needs, their axes, and the paths of their outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from scalable.axes import MOST_COMBINATIONS, count, fields_in, filled_in, value_text
from scalable.findings import Finding
from scalable.manifest.models import RETURNED, Manifest, Task
from scalable.wording import not_defined, some_of

NAMED = 5  # values in a message


def check_tasks(manifest: Manifest) -> Iterator[Finding]:
    for name, task in manifest.tasks.items():
        path = f"tasks.{name}"
        if task.component not in manifest.components:
            yield undefined(f"{path}.component", "component", task.component, manifest.components)
        for place, need in enumerate(task.needs):
            if need not in manifest.tasks:
                yield undefined(f"{path}.needs[{place}]", "task", need, manifest.tasks)
            elif need in task.arguments:
                message = f"{need!r} is both an argument and a task it needs"
                yield Finding.error("two-values", f"{path}.arguments.{need}", message, "rename one of them")
        yield from check_axes(path, task, manifest.tasks)
        yield from check_outputs(path, task)
    yield from check_same_files(manifest.tasks)
    yield from check_circles(manifest.tasks)


def undefined(path: str, noun: str, name: str, known: Iterable[str]) -> Finding:
    """Return a name that nothing has: lists the ones there are and proposes the nearest."""
    message, remedy = not_defined(noun, name, known)
    return Finding.error(f"undefined-{noun}", path, message, remedy)


def check_axes(path: str, task: Task, tasks: Mapping[str, Task]) -> Iterator[Finding]:
    """Check that every combination can be computed: with values that are there, and not too many of them."""
    if task.over and task.run is None:
        remedy = "write run: package.module:function, or remove over"
        yield Finding.error("over-without-run", f"{path}.over", "over is for tasks that say what to run", remedy)
    for axis, values in task.over.items():
        if axis in task.arguments or axis in task.needs:
            message = f"{axis!r} is both an axis and {'an argument' if axis in task.arguments else 'a task it needs'}"
            yield Finding.error("two-values", f"{path}.over.{axis}", message, "rename one of them")
        for need in task.needs:
            known = tasks[need].over.get(axis) if need in tasks else None
            there = set(known or ())
            missing = [value_text(value) for value in values if value not in there] if known is not None else []
            if missing:
                message = f"{need} is not computed for {axis} {some_of(missing, NAMED)}"
                remedy = f"add them to tasks.{need}.over.{axis}, or remove them"
                yield Finding.error("missing-coordinate", f"{path}.over.{axis}", message, remedy)
    if (jobs := count(task.over)) > MOST_COMBINATIONS:
        message = f"{jobs:,} combinations are more than the {MOST_COMBINATIONS:,} jobs a task may have"
        remedy = "let a job compute several of them: leave an axis out and loop over its values in the function"
        yield Finding.error("too-many-jobs", f"{path}.over", message, remedy)


def check_outputs(path: str, task: Task) -> Iterator[Finding]:
    """Check that templates name axes of the task, all of them, and that no two combinations share a file."""
    first = {axis: values[0] for axis, values in task.over.items()}
    for name, template in task.outputs.items():
        where = f"{path}.outputs.{name}"
        if name in task.over or name in task.arguments or name in task.needs:
            yield Finding.error("two-values", where, f"{name!r} is also an argument of the task", "rename one of them")
        if template in RETURNED:
            continue
        used = fields_in(template)
        if unknown := [axis for axis in used if axis not in task.over]:
            axes = f"choose one of {', '.join(task.over)}" if task.over else "remove it: the task has no axes"
            yield Finding.error("unknown-axis", where, f"{unknown[0]!r} is no axis of the task", axes)
            continue
        several = [axis for axis, values in task.over.items() if len(values) > 1 and axis not in used]
        if several:
            message = f"{template} is the same file for every {several[0]}"
            yield Finding.error("same-output", where, message, f"add {{{several[0]}}} to it")
        try:
            filled_in(template, first)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            yield Finding.error("bad-value", where, f"{template} cannot be filled in: {error}", "write e.g. {year}")


def check_same_files(tasks: Mapping[str, Task]) -> Iterator[Finding]:
    """Check that no two tasks, and no two outputs of a task, are written to the same path."""
    seen: dict[str, str] = {}
    for name, task in tasks.items():
        for output, template in task.outputs.items():
            path = f"tasks.{name}.outputs.{output}"
            if template not in RETURNED and seen.setdefault(template, path) != path:
                yield Finding.error("same-output", path, f"{template} is also written by {seen[template]}", "rename it")


def check_circles(tasks: Mapping[str, Task]) -> Iterator[Finding]:
    left = {name: set(task.needs) & set(tasks) for name, task in tasks.items()}
    while ready := [name for name, needs in left.items() if not needs]:
        for name in ready:
            del left[name]
        for needs in left.values():
            needs.difference_update(ready)
    while after := [name for name in left if not any(name in needs for needs in left.values())]:
        for name in after:  # it only waits for those who need each other
            del left[name]
    for name in left:
        message, remedy = f"{name} waits for itself", "remove it"
        if len(left) > 1:
            message, remedy = f"{message}: {' and '.join(sorted(left))} need each other", "remove one of them"
        yield Finding.error("circular-needs", f"tasks.{name}.needs", message, remedy)
        break
