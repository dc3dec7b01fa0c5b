"""``scalable ops profile``: where a worker or a run spends its time, as a flame graph taken from outside."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from scalable.cli import operating
from scalable.cli.output import console, print_json
from scalable.errors import UsageError
from scalable.observe.folders import own_name
from scalable.observe.words import stamp


def run(options: argparse.Namespace) -> int:
    seconds = number_of_seconds(options.seconds)
    path = Path(options.output or f"profile-{own_name(options.name, 'run')}-{stamp(time.time(), '%H%M%S')}.svg")
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file in it, e.g. --output {path / 'profile.svg'}")
    folder = operating.chosen(options)
    within_s = seconds + operating.LOOK_WITHIN_S
    answer = operating.asked(folder, "profile", within_s=within_s, target=options.name, seconds=seconds)
    operating.save(path, answer["svg"])
    if options.format == "json":
        content = {"run_id": folder.run_id, "worker": answer["worker"], "run": answer["run"], "output": str(path)}
        print_json(content)
    else:
        what = f"{answer['run']} on {answer['worker']}" if answer["run"] else answer["worker"]
        console().print(f"wrote {path}: {what} for {seconds:g} s; open it in a browser", soft_wrap=True)
    return 0


def number_of_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 600:
        raise UsageError(f"--seconds is {text!r}; write a number up to 600, e.g. --seconds 10")
    return seconds
