"""The words of commands with which a person acts on a live session or its results, from any machine that sees them."""

from __future__ import annotations

import argparse

from scalable.cli.arguments.shared import Add, format_option, run_options, yes_option

FAULTS = (
    "kill-worker", "kill-runner", "stop-runner", "lose-node", "fill-memory", "block-store", "cut-network", "fill-disk",
    "storm",
)  # fmt: skip


def operator_commands(add: Add) -> None:
    def about(
        name: str, summary: str, *examples: str, names: str = "", optional: bool = False
    ) -> argparse.ArgumentParser:
        command = add(name, summary, *examples)
        if names:
            nargs = "?" if optional else None
            command.add_argument("name", nargs=nargs, metavar=names.partition(":")[0], help=names.partition(": ")[2])
        if name == "mark-failed":
            command.add_argument("--manifest", metavar="M", help="default: SCALABLE_MANIFEST, then ./scalable.yaml")
            format_option(command)
        else:
            command.add_argument("--run-id", metavar="ID", help="default: the session that runs, then the latest")
            run_options(command)
        return command

    either = "W|RUN: a worker, or a run that is on one"
    about("workers", "show the workers of a live session and what each does", "workers", "workers --format json")
    dump = about("dump", "show what every thread of a worker or run is doing", "dump first --output F", names=either)
    dump.add_argument("--output", metavar="F", help="write it to a file")
    profile = about("profile", "draw a flame graph of a worker or run", "profile first --seconds 30", names=either)
    profile.add_argument("--seconds", metavar="S", default="10", help="how long to look (default: 10)")
    profile.add_argument("--output", metavar="F.svg", help="where to write it (default: profile-NAME-TIME.svg)")
    run_name = "RUN: default: the only one that is not finished"
    about("explain", "say why a run waits, failed or was tried again", "explain first", names=run_name, optional=True)
    kill_names = "NAME: a worker, a run, a sweep, or all for every run"
    examples = ("kill first", "kill demeter-3 --yes", "kill all")
    kill = about("kill", "end a worker, run or sweep now, with all its processes", *examples, names=kill_names)
    yes_option(kill)
    pause = about(
        "pause", "start nothing new in a live session", "pause", "pause --now      cost overrun: stop at once"
    )
    pause.add_argument("--now", action="store_true", help="stop what runs, to be run again later; send workers away")
    yes_option(pause)
    about("resume", "let a paused session go on", "resume")
    rollback = add(
        "rollback",
        "go back to the sizes and numbers of workers of the plan before",
        "rollback --dry-run",
        "rollback --to run-20260415T101500Z-lab-1a2b3c4d",
        "rollback --undo      plan by itself again",
    )
    rollback.add_argument("--to", metavar="RUN", help="whose plan (default: the latest other one of the same work)")
    rollback.add_argument("--undo", action="store_true", help="lift what is pinned: the next plan is made anew")
    rollback.add_argument("--dry-run", action="store_true", help="say what would be done, do nothing")
    rollback.add_argument("--manifest", metavar="M", help="default: SCALABLE_MANIFEST, then ./scalable.yaml")
    rollback.add_argument("--target", metavar="T", help="default: SCALABLE_TARGET, then the manifest's first")
    rollback.add_argument("--overlay", metavar="O", help="an overlay to apply on top of the target's")
    format_option(rollback)
    mark_names = "NAME: a sweep, a run, or the key of a row"
    example = 'mark-failed calibration --reason "wrong prices in March"'
    mark = about("mark-failed", "let results count no longer, to be computed again", example, names=mark_names)
    mark.add_argument("--reason", required=True, metavar="TEXT", help="what is wrong with them, for those who ask")
    dlq = add(
        "dlq",
        "list, replay or drop what the store's database refused for good",
        "dlq list",
        "dlq replay --all      once the cause is gone",
        "dlq drop 3f2a --yes",
    )
    dlq_options(dlq)
    debug = about(
        "debug", "run what failed, or one cell of a sweep, again here in the foreground", "debug first --pdb",
        "debug --sweep calibration --asset AAVEUSDC --fold 2", names="RUN: which", optional=True,
    )  # fmt: skip
    debug.add_argument("--pdb", action="store_true", help="enter the debugger where the error was raised")
    debug.add_argument("--sweep", metavar="S", help="instead: a cell of this sweep, the first that matches")
    for name in ("asset", "variant", "fold", "cost"):
        debug.add_argument(f"--{name}", metavar=name[0].upper(), help=f"which cell: its {name}")
    debug.add_argument("--fresh", action="store_true", help="compute every stage of the cell, whatever is kept")
    chaos = add(
        "chaos",
        "make something go wrong in a live run, and undo it",
        "chaos kill-runner",
        "chaos stop-runner --worker demeter-0 --seconds 30",
        "chaos storm --seed 7 --faults 20 --over 60",
    )
    chaos_options(chaos)


def dlq_options(command: argparse.ArgumentParser) -> None:
    actions = ("list", "replay", "drop")
    command.add_argument("action", nargs="?", default="list", choices=actions, metavar="ACTION", help="|".join(actions))
    command.add_argument("ids", nargs="*", metavar="ID", help="of a dead letter, or its first digits")
    command.add_argument("--all", action="store_true", help="every dead letter")
    yes_option(command)
    command.add_argument("--manifest", metavar="M", help="default: SCALABLE_MANIFEST, then ./scalable.yaml")
    format_option(command)


def chaos_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("action", choices=FAULTS, metavar="ACTION", help=", ".join(FAULTS))
    command.add_argument("--run-id", metavar="ID", help="default: the run that is running, if it is the only one")
    command.add_argument("--worker", metavar="W", help="the victim, or whose runner (default: at random)")
    command.add_argument("--seconds", metavar="S", default="10", help="how long a fault is held (default: 10)")
    command.add_argument("--seed", metavar="N", help="for what is drawn at random (default: another each time)")
    how = "cut-network: break the connection (default), or freeze the worker"
    command.add_argument("--how", choices=("sever", "freeze"), default="sever", help=how)
    command.add_argument("--leave", metavar="SIZE", help="fill-memory, fill-disk: how much stays free")
    command.add_argument("--store", metavar="URL", help="block-store: another one than the run's")
    command.add_argument("--folder", metavar="F", help="fill-disk: another one than the run's")
    command.add_argument("--faults", metavar="N", default="20", help="storm: how many (default: 20)")
    command.add_argument("--over", metavar="S", default="60", help="storm: within how many seconds (default: 60)")
    command.add_argument("--kinds", metavar="K", help="storm: which, how often, e.g. kill-runner=9,kill-worker=1")
    command.add_argument("--yes", action="store_true", help="do not ask, and do not limit how much disk is filled")
    run_options(command)
