"""The catalogue of journal records is what the code writes: all of it, and nothing else."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import scalable
from scalable.observe.journal import AT_ONCE
from scalable.observe.kinds import KINDS
from scalable.observe.view import TAKERS

SOURCES = Path(scalable.__file__).parent
PASSED_ON = {"tell": "cluster/cluster.py", "_record": "cluster/diagnosis/watching.py"}  # to journal.write
SENT = "log_event"  # by workers: the cluster passes on what has a kind


def test_every_kind_that_code_writes_is_in_the_catalogue_with_its_fields() -> None:
    written: defaultdict[str, set[str]] = defaultdict(set)
    for path in SOURCES.rglob("*.py"):
        for kind, fields in writes(path):
            written[kind] |= fields
    unknown = {
        kind: sorted(fields - set(KINDS[kind].fields) - {"t"}) if kind in KINDS else "the kind itself"
        for kind, fields in written.items()
    }
    assert {kind: what for kind, what in unknown.items() if what} == {}, "add it to observe/kinds.py"
    assert set(KINDS) == set(written), "nobody writes it: take it out of observe/kinds.py"


def test_readers_know_no_kind_that_is_not_in_the_catalogue() -> None:
    assert set(TAKERS) <= set(KINDS)
    assert set(KINDS) >= AT_ONCE


def writes(path: Path) -> Iterator[tuple[str, set[str]]]:
    """Kinds with those of their fields that are named where they are written."""
    here, source = str(path.relative_to(SOURCES)), path.read_text(encoding="utf-8")
    if not any(word in source for word in ("journal", SENT, '"kind"')):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Dict) and "t" in texts(node.keys) and "kind" in texts(node.keys):
            yield from record(node)
        if not isinstance(node, ast.Call):
            continue
        called, arguments = node.func, node.args
        if is_journal(called) or (isinstance(called, ast.Attribute) and PASSED_ON.get(called.attr) == here):
            yield from named(node, arguments[:1])
        elif arguments and is_journal(arguments[0]):  # callback(journal.write, "ended", …)
            yield from named(node, arguments[1:2])
        elif isinstance(called, ast.Attribute) and called.attr == SENT and isinstance(arguments[-1], ast.Dict):
            yield from record(arguments[-1])


def is_journal(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "write" and ast.unparse(node.value).endswith("journal")


def named(node: ast.Call, arguments: list[ast.expr]) -> Iterator[tuple[str, set[str]]]:
    for kind in texts(arguments):
        yield kind, {keyword.arg for keyword in node.keywords if keyword.arg}


def record(node: ast.Dict) -> Iterator[tuple[str, set[str]]]:
    told = dict(zip(map(text, node.keys), node.values, strict=True))
    if kind := text(told["kind"]):
        yield kind, {name for name in told if name and name != "kind"}


def texts(nodes: list[ast.expr] | list[ast.expr | None]) -> list[str]:
    return [found for node in nodes if (found := text(node))]


def text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
