"""Checks of code: can what tasks run be found, can the project's folder be handed to workers? Imports nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

from scalable.doctor.checks import Case, fail, ok, warn
from scalable.findings import Finding
from scalable.manifest.models import RETURNED, Task
from scalable.manifest.targets import SlurmTarget
from scalable.quantities import Memory
from scalable.wording import not_defined, plural, some_of
from scalable.worker.project import LARGEST_FILE, MOST_BYTES, MOST_FILES, files

NAMED = 3  # large files that are named


def checks(case: Case) -> Iterator[Finding]:
    target = case.spec.target
    in_image = isinstance(target, SlurmTarget) and target.code == "image"
    runnable = {name: task for name, task in case.manifest.tasks.items() if task.run is not None}
    if in_image and runnable:
        yield ok("functions", f"{plural(len(runnable), 'task')} run what is in the image; that is not looked at")
        runnable = {}
    own = {name: sweep.run for name, sweep in case.manifest.sweeps.items() if sweep.run is not None}
    findings = [function(f"tasks.{name}.run", str(task.run), case.folder, task) for name, task in runnable.items()]
    findings += [function(f"sweeps.{name}.run", run, case.folder) for name, run in own.items()]
    if findings:
        counts = [plural(len(part), noun) for noun, part in (("task", runnable), ("sweep", own)) if part]
        good = ok("functions", f"{' and '.join(counts)} can be found in {case.folder}")
        yield from [problem for problem in findings if problem] or [good]
    if isinstance(target, SlurmTarget) and target.code != "image":
        yield from project(case.folder, target.code)


def function(where: str, run: str, folder: Path, task: Task | None = None) -> Finding | None:
    """Return what is wrong with a function; nothing if it is fine or cannot be judged from its text."""
    module, _, wanted = run.partition(":")
    code_file = located(module, folder)
    if code_file is None:
        text = f"there is no module {module} in {folder} or among the installed packages"
        remedy = "correct the name, or write the path from the manifest's folder with dots"
        return fail("functions", text, remedy, where)
    if not (code_file.origin and code_file.origin.endswith(".py")):
        return None  # compiled, or a namespace
    file = Path(code_file.origin)
    shown = file.relative_to(folder) if file.is_relative_to(folder) else file
    try:
        tree = ast.parse(file.read_bytes(), file.name)
    except (OSError, SyntaxError, ValueError) as error:
        return fail("functions", f"{shown} cannot be read: {error}", "correct that file", where)
    defined = definitions(tree.body)
    if defined is None:
        return None
    if wanted not in defined:
        own = [name for name, node in defined.items() if not isinstance(node, ast.Import | ast.ImportFrom)]
        text, remedy = not_defined("function", wanted, own)
        return fail("functions", f"in {shown}, {text}", remedy, where)
    node = defined[wanted]
    if task is None or not isinstance(node, ast.FunctionDef) or node.decorator_list:
        return None
    if problem := misfit(node, task):
        return fail("functions", f"{wanted} in {shown} {problem}", "correct arguments or needs", where)
    return None


def located(module: str, folder: Path) -> ModuleSpec | None:
    """Return a module's file, found from package to package without importing any."""
    top, *rest = module.split(".")
    try:
        spec = PathFinder.find_spec(top, [str(folder)]) or find_spec(top)
    except (ImportError, ValueError):  # something that is no module goes by this name
        return None
    name = top
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        name = f"{name}.{part}"
        spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
    return spec


def definitions(body: Iterable[ast.stmt]) -> dict[str, ast.AST] | None:
    """Return the names a module defines at its top level; nothing if that cannot be told from its text."""
    nodes: dict[str, ast.AST] = {}
    for node in body:
        match node:
            case ast.FunctionDef(name="__getattr__"):
                return None
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                nodes[name] = node
            case ast.Import(names) | ast.ImportFrom(names=names):
                if any(alias.name == "*" for alias in names):
                    return None
                nodes |= {(alias.asname or alias.name).partition(".")[0]: node for alias in names}
            case ast.Assign() | ast.AnnAssign():
                nodes |= {child.id: node for child in ast.walk(node) if isinstance(child, ast.Name)}
            case ast.If() | ast.Try() | ast.With():
                inner = [part for field in ("body", "orelse", "finalbody") for part in getattr(node, field, [])]
                inner += [part for handler in getattr(node, "handlers", []) for part in handler.body]
                deeper = definitions(inner)
                if deeper is None:
                    return None
                nodes |= deeper
    return nodes


def misfit(node: ast.FunctionDef, task: Task) -> str:
    """Return why the task's arguments do not fit the function; empty if they do."""
    takes = node.args
    named = [*takes.args, *takes.kwonlyargs]
    names = {argument.arg for argument in named}
    optional = (
        {argument.arg for argument in takes.args[len(takes.args) - len(takes.defaults) :]} if takes.defaults else set()
    )
    optional |= {argument.arg for argument, default in zip(takes.kwonlyargs, takes.kw_defaults, strict=True) if default}
    given = {*task.arguments, *task.needs, *task.over}
    given |= {name for name, path in task.outputs.items() if path not in RETURNED and name in names}
    if takes.posonlyargs:
        return f"takes {takes.posonlyargs[0].arg} by position only, but arguments are passed by name"
    if (unknown := sorted(given - names)) and takes.kwarg is None:
        return f"takes no argument {unknown[0]!r}"
    if missing := sorted(names - optional - given):
        return f"needs the argument {missing[0]!r}"
    return ""


def project(folder: Path, mode: str) -> Iterator[Finding]:
    """Check whether workers can be given, or can compare, the code."""
    count, total, large = 0, 0, []
    for path in files(folder):
        count += 1
        if count > MOST_FILES:
            break
        size = path.stat().st_size
        total += size if size <= LARGEST_FILE else 0
        if size > LARGEST_FILE:
            large.append(f"{path.name} ({Memory(size)})")
    many = f"{folder} has more than {MOST_FILES:,} files"
    if mode == "shared":
        if count > MOST_FILES:
            yield warn("project", f"{many}; workers cannot compare their code", "give the project its own folder")
        else:
            yield ok("project", f"{folder}: {plural(count, 'file')}, compared by workers")
    elif count > MOST_FILES or total > MOST_BYTES:
        text = many if count > MOST_FILES else f"{folder} has {Memory(total)} to upload, at most {Memory(MOST_BYTES)}"
        yield fail("project", f"{text}: too large to upload", "write code: shared, or give the project its own folder")
    elif large:
        text = f"not uploaded, being over {Memory(LARGEST_FILE)}: {some_of(large, NAMED)}"
        yield warn("project", text, "workers find such files in a shared folder only")
    else:
        yield ok("project", f"{folder}: {plural(count, 'file')}, {Memory(total)} to upload")
