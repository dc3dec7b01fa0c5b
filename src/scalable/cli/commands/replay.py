"""``scalable forecast replay``: whether the engine decides again as it did in a recorded run."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from scalable.cli.output import console, facts, note, print_json, working
from scalable.errors import UsageError
from scalable.observe import RunFolder, read
from scalable.observe.liveness import is_running
from scalable.observe.redact import redact
from scalable.observe.words import length
from scalable.planning.replay import Difference, Recording, Replay, ReplayError, Simulated, replay
from scalable.wording import plural

CLOSE = 0.05  # a simulation that ends farther from the actual time is worth a colour
LISTED = 8  # instructions shown to people; machines get all
OPTIONS = ("target", "overlay", "sweep", "seed")  # of other forecasts


def run(options: argparse.Namespace) -> int:
    for name in OPTIONS:
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} does not go with replay, which takes everything from the run")
    folder = RunFolder.find(options.named)
    with working("replaying"):
        replayed = replay(recording(folder))
    if options.format == "json":
        print_json(redact({"run": folder.run_id, **replayed.to_dict()}))
    else:
        show(console(), folder.run_id, replayed)
    return 0 if replayed.same else 1


def recording(folder: RunFolder) -> Recording:
    """Read what a run that is over has recorded."""
    if is_running(folder):
        raise UsageError(f"{folder.run_id} still runs; replay it when it is over")
    if not folder.events.exists():
        raise UsageError(f"{folder.run_id} was recorded without its events ({folder.events.name}); replay a later run")
    records = read(folder.events)
    try:
        recorded = Recording.of(records)
        if records.damaged:
            raise ReplayError(f"{plural(records.damaged, 'line')} of its events cannot be read")
    except ReplayError as error:
        raise ReplayError(f"{folder.run_id} cannot be replayed: {error}") from None
    return recorded


def show(screen: Console, run_id: str, replayed: Replay) -> None:
    if replayed.difference is None:
        came = f"{plural(replayed.events, 'event')} led to the same {plural(replayed.instructions, 'instruction')}"
        screen.print(Text.assemble(("same decisions", "bold green"), f"    {run_id}: {came}"))
    else:
        show_difference(screen, run_id, replayed.difference, replayed.events)
    screen.print()
    if replayed.simulated is not None:
        show_simulated(screen, replayed.simulated)
    else:
        screen.print(note("·", f"not simulated: {replayed.why_not}", "dim"))


def show_difference(screen: Console, run_id: str, difference: Difference, events: int) -> None:
    where = f"    {run_id}: from event {difference.number} of {events} on, {difference.at_s:.3f} s after the start"
    screen.print(Text.assemble(("other decisions", "bold red"), where))
    lines = [("event", in_words(difference.event))]
    lines += [("then", line) for line in beyond(difference.then, difference.now)]
    lines += [("now", line) for line in beyond(difference.now, difference.then)]
    screen.print(Padding(facts(lines), (0, 0, 0, 2)))


def beyond(some: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the instructions that the others lack, in words; all if only their order differs."""
    lacking = [instruction for instruction in some if instruction not in others]
    if not lacking and len(some) == len(others):
        lacking = list(some)
    lines = [in_words(instruction) for instruction in lacking[:LISTED]]
    more = len(lacking) - LISTED
    return [*lines, f"and {more} more"] if more > 0 else lines or ["nothing more"]


def in_words(recorded: Mapping[str, Any]) -> str:
    """Return an event or instruction as a line: its kind and its fields."""
    ((kind, values),) = recorded.items()
    if isinstance(sweep := values.get("sweep"), Mapping):
        values = {**sweep, "jobs": len(sweep.get("jobs", ()))}
    return ", ".join((kind, *(f"{name} {value}" for name, value in values.items() if value is not None)))


def show_simulated(screen: Console, simulated: Simulated) -> None:
    off = Text(f"{simulated.off * 100:+.1f} %", style="yellow" if abs(simulated.off) > CLOSE else "green")
    lines: list[tuple[str, str | Text]] = [
        ("took", length(simulated.actual_s)),
        (
            "simulated",
            Text.assemble(f"{length(simulated.simulated_s)}, ", off, " with its start-up times and durations"),
        ),
    ]
    screen.print(Padding(facts(lines), (0, 0, 0, 2)))
