"""``scalable ops kill``: end a worker, a job or a sweep of a live session now, with all its processes."""

from __future__ import annotations

import argparse

from scalable.cli import operating
from scalable.cli.output import console, errors, print_json
from scalable.observe.mailbox import killed


def run(options: argparse.Namespace) -> int:
    folder = operating.chosen(options, acts=True)
    if not operating.confirmed(f"kill {options.name} of {folder.run_id}?", options.yes):
        errors().print("nothing was killed")
        return 1
    answer = operating.asked(folder, "kill", within_s=operating.ACT_WITHIN_S, target=options.name)
    if options.format == "json":
        print_json({"run_id": folder.run_id, **{name: answer[name] for name in ("killed", "runs", "follows")}})
    else:
        console().print(killed(answer), soft_wrap=True)
    return 0
