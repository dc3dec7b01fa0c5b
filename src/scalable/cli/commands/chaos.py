"""``scalable ops chaos``: make one fault, or a storm of them, in a live run, and undo it."""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from math import inf, isfinite
from pathlib import Path
from typing import Any

from scalable.chaos import FAULTS, Made, Scene, Wish, storm
from scalable.chaos.storms import USUAL
from scalable.cli import operating
from scalable.cli.output import console, print_json
from scalable.errors import QuantityError, UsageError
from scalable.observe import RunFolder
from scalable.observe.liveness import is_running
from scalable.observe.words import clock
from scalable.quantities import Duration, Memory
from scalable.wording import plural

LOOK_EVERY_S = 0.2  # at whether the run is over while a fault lasts
LINE = "{:>7}  {:<11}  {:>5}  {}"  # of a storm, told as its faults are made


def run(options: argparse.Namespace) -> int:
    folder = operating.chosen(options, acts=True)
    seed = whole("--seed", options.seed) if options.seed is not None else secrets.randbelow(10_000)
    wish = Wish(
        worker=options.worker,
        how=options.how,
        leave=size(options.leave) if options.leave is not None else None,
        store=options.store,
        folder=Path(options.folder) if options.folder is not None else None,
        sure=options.yes,
    )
    if options.action == "storm":
        return whole_storm(options, folder, wish, seed)
    return make_one(options, folder, wish, seed)


def make_one(options: argparse.Namespace, folder: RunFolder, wish: Wish, seed: int) -> int:
    seconds = span("--seconds", options.seconds)
    fault = Scene(folder, random.Random(seed)).prepare(options.action, wish)
    lasting = f" for {Duration(seconds)}" if fault.lasts else ""
    if not operating.confirmed(f"{fault.what}{lasting} in {folder.run_id}?", options.yes):
        return 1
    began = time.time()
    with ExitStack() as held:
        held.enter_context(fault.make())
        if options.format == "text":
            print(f"{clock(began)}  {fault.what}{lasting}", flush=True)
        if fault.lasts:
            wait(folder, seconds)
    took = time.time() - began if fault.lasts else None
    if options.format == "json":
        facts = {"fault": fault.name, "what": fault.what, "t": began, "seconds": took, "seed": seed}
        print_json({"run_id": folder.run_id, **facts})
    elif fault.lasts:
        print(f"{clock(time.time())}  undone")
    return 0


def whole_storm(options: argparse.Namespace, folder: RunFolder, wish: Wish, seed: int) -> int:
    faults, over = whole("--faults", options.faults), span("--over", options.over)
    kinds = weights(options.kinds) if options.kinds is not None else USUAL
    question = f"make {plural(faults, 'fault')} over {Duration(over)} in {folder.run_id}?"
    if not operating.confirmed(question, options.yes):
        return 1
    made: list[Made] = []
    screen = console() if options.format == "text" else None
    if screen is not None:
        screen.print(LINE.format("after", "fault", "for", "what"))
    try:
        for fault in storm(folder, seed=seed, faults=faults, over=over, kinds=kinds, wish=wish):
            made.append(fault)
            if screen is not None:
                screen.print(line(fault), soft_wrap=True)
                sys.stdout.flush()
    finally:  # also of a storm that was interrupted it is good to know what it did
        tell(options, folder, seed, faults, made)
    return 0


def tell(options: argparse.Namespace, folder: RunFolder, seed: int, faults: int, made: list[Made]) -> None:
    done = sum(fault.made for fault in made)
    if options.format == "json":
        print_json({"run_id": folder.run_id, "seed": seed, "made": done, "faults": [fault.to_dict() for fault in made]})
        return
    early = f"; it ended after {len(made)} of {faults}" if len(made) < faults else ""
    console().print(f"{plural(done, 'fault')} made in {folder.run_id}, seed {seed}{early}", soft_wrap=True)


def wait(folder: RunFolder, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and is_running(folder):
        time.sleep(min(LOOK_EVERY_S, left))


def line(made: Made) -> str:
    lasted = f"{made.seconds:.1f} s" if made.seconds is not None else ""
    return LINE.format(f"{made.at:.1f} s", made.name, lasted, made.what)


def weights(text: str) -> Mapping[str, float]:
    """``kill-runner=9,kill-worker=1``; a name alone counts 1."""
    by_fault: dict[str, float] = {}
    for part in text.split(","):
        name, equals, weight = part.strip().partition("=")
        if name not in FAULTS:
            raise UsageError(f"--kinds: there is no fault {name!r}; there are {', '.join(FAULTS)}")
        by_fault[name] = number_option("--kinds", weight) if equals else 1.0
    if not 0 < sum(by_fault.values()) < inf:
        raise UsageError(f"--kinds: nothing can be drawn from {text!r}; write e.g. kill-runner=9,kill-worker=1")
    return by_fault


def whole(option: str, text: Any) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise UsageError(f"{option} is {text!r}; write a whole number from 0")
    return int(text)


def span(option: str, text: str) -> float:
    try:
        return Duration.parse(text).seconds
    except QuantityError as error:
        raise UsageError(f"{option}: {error}") from None


def number_option(option: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not isfinite(value) or value < 0:
        raise UsageError(f"{option} is {text!r}; write a number from 0")
    return value


def size(text: str) -> Memory:
    try:
        return Memory.parse(text)
    except QuantityError as error:
        raise UsageError(f"--leave: {error}") from None
