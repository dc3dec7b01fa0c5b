"""The frame of the benchmarks of faults: a folder for each fault, a line for it, and a file with all of them."""

from __future__ import annotations

import json
import os
import platform
import textwrap
import time
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from scalable.errors import ScalableError

RESULTS = Path(__file__).parent / "results"
WITHIN_S = 120.0
WIDTHS = (46, 96)

Fault = TypeVar("Fault")


class Seen(NamedTuple):
    """What the user sees, and the seconds until it is over."""

    text: str
    seconds: float | None


def raised(action: Callable[[], Any]) -> Seen:
    began = time.monotonic()
    try:
        action()
    except ScalableError as error:
        return Seen(f"{type(error).__name__}: {error}", time.monotonic() - began)
    raise AssertionError("nothing was raised")


def provoked(faults: Mapping[str, Fault], provoke: Callable[[Fault, Path], Seen], top: Path) -> list[dict[str, Any]]:
    """What was seen of each fault, in a folder below ``top`` that is the current one meanwhile; printed as it comes."""
    rows = []
    print(f"{'fault':<{WIDTHS[0]}} {'what the user sees':<{WIDTHS[1]}} seconds")
    for number, (name, fault) in enumerate(faults.items()):
        folder = top / f"fault-{number}"
        folder.mkdir()
        with chdir(folder):
            seen = provoke(fault, folder)
        text = " ".join(seen.text.replace(str(folder), "…").split())
        took = round(seen.seconds, 2) if seen.seconds is not None else None
        rows.append({"fault": name, "sees": text, "seconds": took})
        first, *more = textwrap.wrap(text, WIDTHS[1])
        print(f"{name:<{WIDTHS[0]}} {first:<{WIDTHS[1]}} {took if took is not None else '–':>7}", flush=True)
        for line in more:
            print(f"{'':<{WIDTHS[0]}} {line}")
    return rows


def write(name: str, rows: list[dict[str, Any]], **versions: str) -> None:
    facts = {**versions, "python": platform.python_version(), "cpus": len(os.sched_getaffinity(0))}
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / name
    file.write_text(json.dumps({**facts, "faults": rows}, indent=2) + "\n")
    lines = [f"| {row['fault']} | {row['sees']} | {shown(row['seconds'])} |" for row in rows]
    file.with_suffix(".md").write_text(
        "\n".join(["| fault | what you see | seconds |", "|---|---|---|", *lines]) + "\n"
    )
    print(f"written to {file.relative_to(RESULTS.parent.parent)}")


def shown(seconds: float | None) -> str:
    return f"{seconds:.1f}" if seconds is not None else "–"
