"""A seeded mutation check: plants defects one at a time in a copy of the tree and reports which ones the tests catch.

``python -m tests.tools.mutants --seed 1 --count 30`` draws the same list for everybody who has the same source: one
group after the other, and within a group by turns a negated condition, a dropped statement and a changed constant.
Tests run in the order in which they are likely to catch a defect: the unit tests of its room, the other tests, then
the journeys if ``--journeys`` is given. A test that fails counts only if it passes without the defect. A mutant whose
tests do not end in time counts as caught.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.helpers.paths import ROOT

LIMIT_S = 900.0  # for all tests of one mutant unless asked otherwise; several times what they take
SHOWN = 48  # characters of source in a row of the table
CAUGHT, SURVIVED, TIMED_OUT = "caught", "survived", "timed out"
BROKEN = "broken"  # the test that failed does so without the mutant as well
KINDS = ("condition", "statement", "constant")
PYTEST = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider")
NO_TESTS = 5  # pytest's exit status when no test was selected
CAUGHT_BY = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)
LOGGERS = frozenset({"log", "logger", "logging"})
COMPARISONS: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
WIDENED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


@dataclass(frozen=True, slots=True)
class Group:
    """Files in which defects are planted, and the unit tests that should catch them."""

    folder: str
    modules: tuple[str, ...]
    """All of the folder if none is named."""
    tests: tuple[str, ...]

    def files(self) -> Iterator[str]:
        modules = self.modules or sorted(path.stem for path in (ROOT / self.folder).glob("*.py"))
        yield from (f"{self.folder}/{module}.py" for module in modules)


GROUPS = {
    "engine": Group("src/scalable/engine", (), ("tests/unit/engine", "tests/unit/simulation")),
    "store": Group(
        "src/scalable/store", ("rows", "outbox", "writer", "leases/database", "dead_letters"), ("tests/unit/store",)
    ),
    "runner": Group(
        "src/scalable/worker/runner",
        ("supervisor", "process", "limits", "ends", "stamp", "child"),
        ("tests/unit/runner", "tests/unit/worker"),
    ),
    "keys": Group(
        "src/scalable",
        ("store/caching/keys", "store/caching/fingerprints", "sweeps/compiling", "sweeps/units", "sweeps/stages"),
        ("tests/unit/caching", "tests/unit/sweeps"),
    ),
    "statistics": Group(
        "src/scalable/verdicts", ("methods", "rule", "judging", "power", "futility"), ("tests/unit/verdicts",)
    ),
}


@dataclass(frozen=True, slots=True, order=True)
class Mutant:
    """One defect: the bytes of a file from ``start`` to ``end`` are replaced."""

    file: str
    start: int
    end: int
    after: str
    before: str
    line: int
    kind: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the tests made of a mutant: caught, survived, timed out or broken, and the test that failed first."""

    number: int
    group: str
    mutant: Mutant
    result: str
    caught_by: str
    seconds: float

    def row(self) -> str:
        mutant = self.mutant
        where = f"{mutant.file.removeprefix('src/scalable/')}:{mutant.line}"
        change = f"{shortened(mutant.before)} → {shortened(mutant.after)}"
        told = self.result if self.result == CAUGHT else self.result.upper()
        return f"| {self.number} | {where} | {mutant.kind} | `{change}` | {told} | {self.caught_by} |"


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    drawn = draw(options.seed, options.count)
    chosen = [(number, *entry) for number, entry in enumerate(drawn, 1) if not options.only or number in options.only]
    outcomes = []
    print("| | where | kind | before → after | result | by |\n|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = copy_tree(Path(folder) / "tree")
        for number, group, mutant in chosen:
            result, caught_by, seconds = ("", "", 0.0) if options.list else attempt(tree, group, mutant, options)
            outcomes.append(Outcome(number, group, mutant, result, caught_by, seconds))
            print(outcomes[-1].row(), flush=True)
            if options.output:
                Path(options.output).write_text(json.dumps([asdict(o) for o in outcomes], indent=1), encoding="utf-8")
    if options.list:
        return 0
    caught = sum(outcome.result in (CAUGHT, TIMED_OUT) for outcome in outcomes)
    print(f"{caught} of {len(outcomes)} caught")
    return 0 if caught == len(outcomes) else 1


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=30, help="defects to draw, shared evenly among the groups")
    parser.add_argument(
        "--only", type=int, nargs="+", metavar="N", help="numbers in the drawn list; others are skipped"
    )
    parser.add_argument(
        "--tests", default="tests/unit", help="where tests are, divided by spaces; '' runs the room's only"
    )
    parser.add_argument("--journeys", action="store_true", help="then run the tests marked 'journey'")
    parser.add_argument("--limit", type=float, default=LIMIT_S, metavar="S", help="seconds for the tests of one defect")
    parser.add_argument("-n", dest="processes", type=int, default=2, help="processes that run tests")
    parser.add_argument("--list", action="store_true", help="print the list and run no test")
    parser.add_argument("--output", help="file for the results as JSON")
    return parser.parse_args(arguments)


def draw(seed: int, count: int) -> list[tuple[str, Mutant]]:
    """Return groups and mutants by turns, so that a larger count starts with the same list."""
    chance = random.Random(seed)
    lines: dict[tuple[str, str], list[Mutant]] = {}
    for name, group in GROUPS.items():
        found = sorted(mutant for file in group.files() for mutant in candidates(file))
        for kind in KINDS:
            lines[name, kind] = [mutant for mutant in found if mutant.kind == kind]
            chance.shuffle(lines[name, kind])
    turns = [(name, KINDS[turn % len(KINDS)]) for turn in range(count) for name in GROUPS][:count]
    return [(name, lines[name, kind].pop()) for name, kind in turns]


def candidates(file: str) -> Iterator[Mutant]:
    """Yield every defect that can be planted in a file."""
    source = (ROOT / file).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def replaced(node: ast.expr | ast.stmt, kind: str, template: str) -> Mutant:
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        before = source[start:end].decode()
        return Mutant(file, start, end, template.format(before), before, node.lineno, kind)

    for node, in_function in walked(ast.parse(source)):
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            yield replaced(node.test, "condition", "not ({})")
        if isinstance(node, ast.stmt) and in_function and droppable(node):
            yield replaced(node, "statement", "pass")
        if isinstance(node, ast.Constant):
            for text in changed(node.value):
                yield replaced(node, "constant", text)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
            sign = COMPARISONS[type(node.ops[0])]
            left, right = replaced(node.left, "", "{}"), replaced(node.comparators[0], "", "{}")
            between = source[left.end : right.start].decode()
            text = f"{left.before}{between.replace(sign, WIDENED[sign])}{right.before}"
            yield replaced(node, "constant", text.replace("{", "{{").replace("}", "}}"))


def walked(node: ast.AST, in_function: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Yield nodes that say what a program does, and whether each is in a function: no decorators, types or f-strings.

    A class's options are no behaviour, and the columns of what an f-string holds are wrong before Python 3.12.
    """
    for name, value in ast.iter_fields(node):
        if name in ("decorator_list", "annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield child, in_function
                yield from walked(child, in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def droppable(statement: ast.stmt) -> bool:
    """Tell whether a program without the statement still starts; without a variable's first value it would not."""
    if isinstance(statement, ast.Expr):
        value = statement.value.value if isinstance(statement.value, ast.Await) else statement.value
        return isinstance(value, ast.Call | ast.Yield | ast.YieldFrom) and not logs(value)
    if isinstance(statement, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in statement.targets)
    return isinstance(statement, ast.AugAssign | ast.Return | ast.Raise | ast.Delete | ast.Continue | ast.Break)


def logs(value: ast.expr) -> bool:
    named = value.func.value if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else None
    return isinstance(named, ast.Name) and named.id in LOGGERS


def changed(value: object) -> list[str]:
    if isinstance(value, bool):
        return [str(not value)]
    if isinstance(value, int | float):
        return list(dict.fromkeys(str(number) for number in (value + 1, value - 1, value * 2) if number != value))
    return []


def copy_tree(target: Path) -> Path:
    """Copy what git tracks or would track, as it is now; never what it ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def attempt(tree: Path, group: str, mutant: Mutant, options: argparse.Namespace) -> tuple[str, str, float]:
    """Plant a mutant, run the tests until one fails, and take it out again."""
    path = tree / mutant.file
    source = path.read_bytes()
    started = time.monotonic()
    try:
        plant(path, source[: mutant.start] + mutant.after.encode() + source[mutant.end :])
        for tests in stages(group, options):
            left_s = options.limit - (time.monotonic() - started)
            result, caught_by = tested(tree, tests, left_s, options.processes)
            if result != SURVIVED:
                break
    finally:
        plant(path, source)
    if caught_by and tested(tree, [caught_by], options.limit, processes=1)[0] != SURVIVED:
        result = BROKEN
    return result, caught_by, round(time.monotonic() - started, 1)


def plant(path: Path, source: bytes) -> None:
    """Write a module; compiled modules of the same size and second would be taken for it, so they go."""
    path.write_bytes(source)
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)


def stages(group: str, options: argparse.Namespace) -> Iterator[list[str]]:
    """Yield pytest's arguments: the unit tests of the room, those asked for besides, and the journeys."""
    asked = options.tests.split()
    room = [folder for folder in GROUPS[group].tests if not asked or folder.startswith(tuple(asked))]
    if room:
        yield room
    if asked:
        yield [*asked, *(f"--ignore={folder}" for folder in room)]
    if options.journeys:
        yield ["-m", "journey", "tests/live", "tests/system"]


def tested(tree: Path, tests: list[str], limit_s: float, processes: int) -> tuple[str, str]:
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    process = subprocess.Popen(
        [*PYTEST, "-n", str(processes), *tests],
        cwd=tree,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # so that what a mutant lets run on can be ended with it
    )
    try:
        text, _ = process.communicate(timeout=max(1.0, limit_s))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return TIMED_OUT, ""
    if process.returncode in (0, NO_TESTS):
        return SURVIVED, ""
    caught_by = CAUGHT_BY.search(text)
    return CAUGHT, caught_by[1] if caught_by else ""  # without a test if pytest itself could not start


def shortened(text: str) -> str:
    flat = " ".join(text.split()).replace("|", "\\|")
    return flat if len(flat) <= SHOWN else f"{flat[: SHOWN - 1]}…"


if __name__ == "__main__":
    sys.exit(main())
