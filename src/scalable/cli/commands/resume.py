"""``scalable ops resume``: a paused session goes on."""

from __future__ import annotations

import argparse

from scalable.cli import operating
from scalable.cli.output import console, print_json


def run(options: argparse.Namespace) -> int:
    folder = operating.chosen(options, acts=True)
    answer = operating.asked(folder, "resume")
    still = answer.get("still", "")  # what a person cannot lift, such as a place that another sweep has taken
    if options.format == "json":
        print_json({"run_id": folder.run_id, "was": answer["was"], "still": still})
    elif still:
        console().print(f"{folder.run_id} is not paused by a person any more, but waits: {still}", soft_wrap=True)
    else:
        text = f"{folder.run_id} goes on" if answer["was"] else f"{folder.run_id} was not paused"
        console().print(text, soft_wrap=True)
    return 0
