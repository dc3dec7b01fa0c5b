"""``scalable ops pause``: nothing new starts in a live session; with ``--now`` what runs is stopped and workers go."""

from __future__ import annotations

import argparse

from scalable.cli import operating
from scalable.cli.output import console, note, print_json
from scalable.observe.mailbox import not_paused, paused


def run(options: argparse.Namespace) -> int:
    folder = operating.chosen(options, acts=True)
    question = f"stop what runs in {folder.run_id} and send its workers away?"
    if options.now and not operating.confirmed(question, options.yes):
        return 1
    answer = operating.asked(folder, "pause", within_s=operating.ACT_WITHIN_S, now=options.now)
    if options.format == "json":
        print_json({"run_id": folder.run_id, **{name: answer[name] for name in NAMES}})
        return 0
    screen = console()
    phrases = paused(answer, now=options.now)
    rest = f" {', '.join(phrases)};" if phrases else ""
    screen.print(f"paused {folder.run_id}:{rest} scalable ops resume  goes on", soft_wrap=True)
    if text := not_paused(answer):
        screen.print(note("!", text, "bold yellow"))
    return 0


NAMES = ("stopped", "running", "waiting", "outside")
