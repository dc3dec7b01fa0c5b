"""Every snippet of the documentation is executed, and prints what the page says it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from docs.generate import pages

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
ANYTHING = "…"
ELSEWHERE = {"slurm"}  # tests/slurm/test_tutorial.py
SETUP_COMMANDS = re.compile(r"make (run|test|test-all|check|bench|docs)\b")


class Block(NamedTuple):
    language: str
    title: str
    on: str
    """What else it needs; such blocks are run where that is."""
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    fence = r"^```(\w+)(?: title=(\S+))?(?: on=(\S+))?\n(.*?)^```$"
    for match in re.finditer(fence, text, flags=re.MULTILINE | re.DOTALL):
        yield Block(match[1], match[2] or "", match[3] or "", match[4], text.count("\n", 0, match.start()) + 1)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_snippet_does_what_the_page_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"EXAMPLE": str(ROOT / "examples/ftf/scalable.yaml"), "__name__": "__main__"}
    for block in blocks(page):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if block.on:
            assert block.on in ELSEWHERE, f"{where}: nobody runs blocks on {block.on}"
        elif block.title:
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            for command, expected in sessions(block.text):
                assert_printed(run(command), expected, f"{where}: {command}")
        elif block.language == "python":
            exec(compile(block.text, where, "exec"), names)
        elif block.language == "sh":
            for command in block.text.splitlines():
                assert SETUP_COMMANDS.match(command), f"{where}: {command!r} is in no test; use a console block"
        else:
            assert block.language == "text", f"{where}: a {block.language} block is in no test"


def sessions(text: str) -> Iterator[tuple[str, list[str]]]:
    """Commands with the lines they print."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *printed = part.rstrip("\n").split("\n")
        yield command, printed


def run(command: str) -> list[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "COLUMNS": "120"}
    done = subprocess.run(
        command, shell=True, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60
    )
    return done.stdout.rstrip("\n").split("\n") if done.stdout else []


def assert_printed(printed: list[str], expected: list[str], where: str) -> None:
    """Line by line; a line ``…`` at the end stands for whatever follows, within a line for whatever differs."""
    if expected and expected[-1] == ANYTHING:
        expected = expected[:-1]
        printed = printed[: len(expected)]
    patterns = [re.escape(line).replace(re.escape(ANYTHING), ".*") for line in expected]
    same = len(printed) == len(expected) and all(map(re.fullmatch, patterns, printed))
    assert same or printed == expected, where


def test_generated_pages_and_pictures_are_up_to_date() -> None:
    stale = [path for path, text in pages().items() if (ROOT / path).read_text(encoding="utf-8") != text]
    assert not stale, "run make docs"
