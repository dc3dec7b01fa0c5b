"""The walks through the code lead along functions that exist, and are short."""

from __future__ import annotations

import ast
import re

import pytest

from tests.helpers.paths import ROOT

PAGE = (ROOT / "docs/explanation/walks.md").read_text(encoding="utf-8")
STEP = re.compile(r"^\| \d+ \| `([\w/]+\.py)` `([\w.]+)` \|", re.MULTILINE)


def names_in(path: str) -> set[str]:
    """Return the functions and classes of a module, methods with the name of their class before."""
    body = ast.parse((ROOT / "src/scalable" / path).read_text(encoding="utf-8")).body
    names = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
            names |= {f"{node.name}.{method.name}" for method in methods}
    return names


@pytest.mark.parametrize(("title", "most"), [("From a manifest to a verdict", 20), ("Up after an out-of-memory", 5)])
def test_a_walk_leads_along_functions_that_exist_in_few_modules(title: str, most: int) -> None:
    steps = STEP.findall(PAGE.partition(f"## {title}")[2].partition("\n## ")[0])
    missing = [f"{path} {name}" for path, name in steps if name not in names_in(path)]
    assert missing == []
    assert most * 3 / 4 <= len({path for path, _ in steps}) <= most
