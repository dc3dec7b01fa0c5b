"""Evidence of an incident as lines for people. It may come from an old or damaged file: nothing is taken on trust."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from scalable.observe.fields import count, listed, mapping, number, text
from scalable.quantities import Memory

MOST_LINES = 2000  # of a page; nobody reads on
OUR_OWN = re.compile(r" - distributed\.[\w.]+ - INFO - |^scalable worker: ")  # what a worker says of itself
SETTINGS = re.compile(r"(?<=-m scalable\.worker\.runner) \{.*")  # how a runner is told what to do


def evidence_lines(found: Mapping[str, Any]) -> list[str]:
    """Processes, stacks, what faulthandler told and the log's end."""
    return [line for _, line in zip(range(MOST_LINES), all_lines(found), strict=False)]


def all_lines(found: Mapping[str, Any]) -> Iterator[str]:
    processes = [mapping(one) for one in listed(found.get("processes"))]
    if processes:
        size = f", {Memory(used)} in memory" if (used := count(found.get("memory"))) else ""
        yield f"processes{size}"
    for one in processes:
        yield f"  {process_line(one)}"
    before = None
    for one in [mapping(one) for one in listed(found.get("stacks"))]:
        if before != one.get("pid"):
            before = one.get("pid")
            yield f"stacks of {count(before)}"
        yield f"  {text(one.get('thread')) or '?'}{'  (using a CPU)' if one.get('active') is True else ''}"
        yield from (f"    {text(frame)}" for frame in listed(one.get("frames")))
    if "py-spy" not in text(found.get("stacks_by")):  # else it says the same once more
        yield from block("faulthandler", text(found.get("faulthandler")).splitlines())
    said = [text(line) for line in listed(found.get("log"))]
    yield from block("last lines of the log", [line for line in said if not OUR_OWN.search(line)])
    if detail := text(found.get("detail")):
        yield from block("detail", detail.splitlines())


def process_line(one: Mapping[str, Any]) -> str:
    facts = [
        text(one.get("state")),
        f"in {waits}" if (waits := text(one.get("waits_in"))) else "",
        f"{threads} threads" if (threads := count(one.get("threads"))) > 1 else "",
        str(Memory(size)) if (size := count(one.get("resident"))) else "",
        f"{cpu:.1f} s of CPU" if (cpu := number(one.get("cpu_s"))) is not None else "",
    ]
    who = f"{count(one.get('pid'))} (of {count(one.get('parent'))})"
    return f"{who}  {', '.join(filter(None, facts))}  {SETTINGS.sub('', text(one.get('command')))}"


def block(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield title
        yield from (f"  {line}" for line in lines)
