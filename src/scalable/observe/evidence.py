"""Evidence of an incident as lines for people. It may come from an old or damaged file: nothing is taken on trust."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from scalable.observe.fields import count, listed, mapping, number, text
from scalable.quantities import Memory

MOST_LINES = 2000  # of a page; nobody reads on
OUR_OWN = re.compile(r" - distributed\.[\w.]+ - INFO - |^(?:\S{24} )?scalable worker: ")  # what a worker says of itself
SETTINGS = re.compile(r"(?<=-m scalable\.worker\.runner) \{.*")  # how a runner is told what to do


def evidence_lines(evidence: Mapping[str, Any]) -> list[str]:
    """A lost worker's jobs, processes, stacks, what faulthandler told and the log's end."""
    return [line for _, line in zip(range(MOST_LINES), all_lines(evidence), strict=False)]


def all_lines(evidence: Mapping[str, Any]) -> Iterator[str]:
    yield from block("its jobs", [text(job) for job in listed(evidence.get("jobs"))])
    processes = [mapping(entry) for entry in listed(evidence.get("processes"))]
    if processes:
        size = f", {Memory(used)} in memory" if (used := count(evidence.get("memory"))) else ""
        yield f"processes{size}"
    for entry in processes:
        yield f"  {process_line(entry)}"
    before = None
    for entry in [mapping(entry) for entry in listed(evidence.get("stacks"))]:
        if before != entry.get("pid"):
            before = entry.get("pid")
            yield f"stacks of {count(before)}"
        yield f"  {text(entry.get('thread')) or '?'}{'  (using a CPU)' if entry.get('active') is True else ''}"
        yield from (f"    {text(frame)}" for frame in listed(entry.get("frames")))
    if "py-spy" not in text(evidence.get("stacks_by")):  # else it says the same once more
        yield from block("faulthandler", text(evidence.get("faulthandler")).splitlines())
    log = [text(line) for line in listed(evidence.get("log"))]
    yield from block("last lines of the log", [line for line in log if not OUR_OWN.search(line)])
    if detail := text(evidence.get("detail")):
        yield from block("detail", detail.splitlines())


def process_line(process: Mapping[str, Any]) -> str:
    facts = [
        text(process.get("state")),
        f"in {waits}" if (waits := text(process.get("waits_in"))) else "",
        f"{threads} threads" if (threads := count(process.get("threads"))) > 1 else "",
        str(Memory(size)) if (size := count(process.get("resident"))) else "",
        f"{cpu:.1f} s of CPU" if (cpu := number(process.get("cpu_s"))) is not None else "",
    ]
    who = f"{count(process.get('pid'))} (of {count(process.get('parent'))})"
    return f"{who}  {', '.join(filter(None, facts))}  {SETTINGS.sub('', text(process.get('command')))}"


def block(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield title
        yield from (f"  {line}" for line in lines)
