"""The words of commands that run work and show what runs or ran."""

from __future__ import annotations

from scalable.cli.arguments.shared import Add, choice_options, manifest_option, manifest_options, run_options


def running_commands(add: Add) -> None:
    run = add(
        "run",
        "run a sweep, the manifest's tasks, or a workflow script with a live session",
        "run --sweep calibration",
        "run",
        "run --target hpc --workflow pipeline.py",
        "run --workflow pipeline.py -- --year 2030     arguments after -- are the script's",
    )
    manifest_options(run)
    run.add_argument("--workflow", metavar="F.py", help="a script to run as __main__; its exit status is the truth")
    run.add_argument("--sweep", metavar="NAME", help="this sweep: what the store lacks of it is computed")
    choice_options(run)
    run.add_argument("--asset", metavar="A", help="only the rows of this asset of the sweep; others are not expected")
    run.add_argument("--here", action="store_true", help="on this machine with one worker, whatever the target is")
    run.add_argument("--holder", metavar="ID", help="runs that name the same one are one sweep to all others")
    run.add_argument("--task", metavar="NAME", action="append", dest="tasks", help="this task and those it needs")

    status = add("status", "show what is running now", "status", "status --watch", "status --format json")
    status.add_argument("--run-id", metavar="ID", help="default: the latest run that is running")
    status.add_argument("--watch", action="store_true", help="look again every second until the run is over")
    run_options(status)

    console = add(
        "console",
        "open a page on which runs are seen live and acted on",
        "console",
        "console --open --read-only",
        "console --port 0 --run-id run-20260415T101500Z-lab-1a2b3c4d",
    )
    console.add_argument("--port", metavar="N", default="8788", help="default: 8788; 0 for one that is free")
    where = "where it listens (default: 127.0.0.1, this machine only; elsewhere it is read-only)"
    console.add_argument("--host", metavar="H", default="127.0.0.1", help=where)
    console.add_argument("--read-only", action="store_true", help="nothing can be done from the page")
    others = "let the page act also where --host lets other machines in"
    console.add_argument("--allow-actions", action="store_true", help=others)
    console.add_argument("--run-id", metavar="ID", help="default: the latest run, then those that follow")
    console.add_argument("--open", action="store_true", help="open it in the browser")

    report = add(
        "report",
        "show what a run did, beside what its plan said",
        "report",
        "report --run-id run-20260415T101500Z-lab-1a2b3c4d --format json",
        "report --format html      one file to send or print",
        "report --output report.txt",
    )
    which = report.add_mutually_exclusive_group()
    which.add_argument("--latest", action="store_true", help="the latest run (default)")
    which.add_argument("--run-id", metavar="ID", help="the name of a run, or the path of its folder")
    report.add_argument("--output", metavar="F", help="write it to a file (default for html: report-RUN.html)")
    run_options(report, page=True)

    logs = add("logs", "show what workers printed", "logs -f", "logs demeter-3 --lines 500")
    logs.add_argument("worker", nargs="?", metavar="WORKER", help="one worker (default: all, merged)")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until the run is over")
    logs.add_argument("--run-id", metavar="ID", help="default: the latest run that is running, then the latest")
    logs.add_argument("--lines", metavar="N", default="100", help="how many of the last lines of each (default: 100)")
    manifest_option(logs)

    incidents = add(
        "incidents",
        "show what went wrong in a run, where, and what would prevent it",
        "incidents",
        "incidents show 1",
        "incidents --all --format json",
    )
    incidents.add_argument("action", nargs="?", choices=("show",), metavar="show", help="one, with its stacks")
    incidents.add_argument("number", nargs="?", metavar="N", help="its number in its run")
    incidents.add_argument("--run-id", metavar="ID", help="default: the latest run")
    incidents.add_argument("--all", action="store_true", help="those of all runs")
    run_options(incidents)
