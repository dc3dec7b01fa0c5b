"""Reads the snippets of the documentation and plays them as a reader would: files are saved, commands run, one by one.

A block ``on=slurm`` needs what not every machine has and is played by the tests of that folder. A line ``…`` at the
end of what a command prints stands for whatever follows, within a line for whatever differs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from scalable.observe.journal import read
from scalable.observe.kinds import KINDS
from tests.helpers.paths import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
ELSEWHERE = ("slurm", "kubernetes", "prometheus")  # tests of these names play what needs them
ANYTHING = "…"
INSTALLED = Path(sys.executable).parent
OF_OTHER_TESTS = re.compile(r"make (run|test|test-all|check|bench|docs|soak|mutants)\b|scalable console\b")
WITHIN_S = 180.0  # the longest takes 10 s, on a busy machine five times that; one that hangs must end


class Block(NamedTuple):
    language: str
    title: str
    """The file it is saved as, if it is one."""
    on: str
    """What it needs, if not every machine has that."""
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    fence = r"^```(\w+)(?: title=(\S+))?(?: on=(\S+))?\n(.*?)^```$"
    for match in re.finditer(fence, text, flags=re.MULTILINE | re.DOTALL):
        yield Block(match[1], match[2] or "", match[3] or "", match[4], text.count("\n", 0, match.start()) + 1)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def needing(on: str) -> list[Path]:
    return [page for page in PAGES if any(block.on == on for block in blocks(page))]


def play(
    page: Path, folder: Path, on: str = "", here: Mapping[str, str] | None = None, programs: Path = INSTALLED
) -> None:
    """Save its files, and run what needs ``on``, or nothing; ``here`` renames words of the page.

    Commands are looked up in the folder ``programs`` first.
    """
    names: dict[str, object] = {"EXAMPLE": str(ROOT / "examples/ftf/scalable.yaml"), "__name__": "__main__"}
    for block in blocks(page):
        where, text = f"{name_of(page)}:{block.line}", block.text
        for word, ours in (here or {}).items():
            text = text.replace(word, ours)
        assert not block.on or block.on in ELSEWHERE, f"{where}: nobody runs blocks on {block.on}"
        if block.title:
            (folder / block.title).write_text(text, encoding="utf-8")
        elif block.on != on:
            continue
        elif block.language == "console":
            for command, expected in sessions(text):
                assert_printed(run(command, programs), expected, f"{where}: {command}")
        elif block.language == "python":
            exec(compile(text, where, "exec"), names)
        elif block.language == "sh":
            for command in text.splitlines():
                assert OF_OTHER_TESTS.match(command), f"{where}: {command!r} is in no test; use a console block"
        else:
            assert block.language == "text", f"{where}: a {block.language} block is in no test"
    assert strangers(folder) == {}, f"{name_of(page)}: journals hold what telemetry/kinds.py does not know"


def sessions(text: str) -> Iterator[tuple[str, list[str]]]:
    """Commands with the lines they print."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *printed = part.rstrip("\n").split("\n")
        yield command, printed


def run(command: str, programs: Path) -> list[str]:
    path = os.pathsep.join((str(programs), str(INSTALLED), os.environ["PATH"]))
    env = {**os.environ, "PATH": path, "COLUMNS": "120", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        command, shell=True, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WITHIN_S
    )
    return done.stdout.rstrip("\n").split("\n") if done.stdout else []


def assert_printed(printed: list[str], expected: list[str], where: str) -> None:
    if expected and expected[-1] == ANYTHING:
        expected = expected[:-1]
        printed = printed[: len(expected)]
    patterns = [re.escape(line).replace(re.escape(ANYTHING), ".*") for line in expected]
    same = len(printed) == len(expected) and all(map(re.fullmatch, patterns, printed))
    assert same or printed == expected, where


def strangers(folder: Path) -> dict[str, set[str]]:
    """What the journals of a folder say and the catalogue of records does not have: fields by kind."""
    found: dict[str, set[str]] = {}
    for journal in folder.rglob("journal.jsonl"):
        for record in read(journal):
            kind = KINDS.get(record["kind"])
            unknown = set(record) - {"t", "kind"} - set(kind.fields if kind else ())
            if kind is None or (unknown and not kind.more):
                found.setdefault(record["kind"], set()).update(unknown)
    return found
