"""What each command takes: first options that several have, then the commands in the order people meet them."""

from __future__ import annotations

import argparse
from typing import Protocol


class Add(Protocol):
    """Adds a command with its one-line summary and examples of its use."""

    def __call__(self, name: str, summary: str, *examples: str) -> argparse.ArgumentParser: ...


GROUPED = {
    "ops": ("workers", "dump", "profile", "kill", "pause", "resume", "rollback", "slots", "mark-failed", "chaos"),
    "admin": ("deploy", "cache", "dlq", "forget", "schema", "completion"),
}
"""Commands that are needed rarely, by the group that they are called in: ``scalable ops kill``."""
GROUP_SUMMARIES = {
    "ops": "act on a live session, its workers and its results",
    "admin": "set up and clean up: files for other systems, kept results, refused rows, completion",
}
MANIFEST_DEFAULT = "default: SCALABLE_MANIFEST, then scalable.yaml here or in a folder above"


def sweep_options(command: argparse.ArgumentParser, meaning: str = "default: the manifest's only one") -> None:
    """Add what every command about a sweep takes; ``meaning``: which sweeps there are to name."""
    command.add_argument("named", nargs="?", metavar="SWEEP", help=f"{meaning}; or the path of a manifest")
    command.add_argument("--sweep", metavar="NAME", help="the same as SWEEP")
    place_options(command)
    format_option(command)


def place_options(command: argparse.ArgumentParser) -> None:
    """Add the options that name a manifest and a place to run from it."""
    command.add_argument("--manifest", metavar="F", help=MANIFEST_DEFAULT)
    command.add_argument("--target", metavar="T", help="default: SCALABLE_TARGET, then the manifest's first")
    command.add_argument("--overlay", metavar="O", help="an overlay to apply on top of the target's")


def run_options(command: argparse.ArgumentParser, page: bool = False) -> None:
    """For commands about something that ran."""
    manifest_option(command)
    format_option(command, page)


def format_option(command: argparse.ArgumentParser, page: bool = False) -> None:
    """``page``: whether it can be written as a page of its own, too."""
    choices = ("text", "json", "html") if page else ("text", "json")
    meaning = f"text for people, json for machines{', html for a page to send or print' if page else ''}"
    command.add_argument("--format", choices=choices, default="text", help=meaning)


def manifest_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--manifest", metavar="F", help="only runs of this manifest")


def where_option(command: argparse.ArgumentParser, help: str) -> None:
    command.add_argument("--where", metavar="AXIS=VALUE", action="append", help=f"{help}; may be given several times")


def yes_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--yes", action="store_true", help="do not ask on a terminal")


def seed_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--seed", metavar="N", help="for durations that vary (default: SCALABLE_SEED, then 0)")


def choice_options(command: argparse.ArgumentParser) -> None:
    """Which of the possible plans is wanted."""
    command.add_argument("--objective", metavar="TEXT", help='"minimize cost", "minimize time" or "balance" (default)')
    command.add_argument("--policy", metavar="TEXT", help='"safe" (default), "aggressive" or "manual"')
    accepts = "accept a plan that costs more than is left; a run stops when that is used up"
    command.add_argument("--over-budget", action="store_true", help=accepts)


REPLAY = "replay"  # asks about a run, not about the manifest
VIEWS = ("margins", "timeline", "options", "month", "growth", "acceptance")


def planning_commands(add: Add) -> None:
    init = add(
        "init",
        "write a commented manifest to start from",
        "init",
        "init --template models",
        "init --template trading",
        "init --template hpc lab.yaml",
    )
    init.add_argument("path", nargs="?", default="scalable.yaml", help="where to write it (default: scalable.yaml)")
    init.add_argument(
        "--template",
        choices=("function", "models", "trading", "ftf", "hpc", "minimal"),
        default="function",
        help="a function of your own (default), a grid of models, a trading ablation, the same on an autoscaled pool, "
        "a workflow of components; minimal is the former name of trading",
    )
    init.add_argument("--force", action="store_true", help="overwrite existing files")

    validate = add(
        "validate",
        "check a manifest and show every error at once",
        "validate",
        "validate calibration              also the code of this sweep",
        "validate lab.yaml --target hpc",
    )
    sweep_options(validate, "also check that the function of this sweep can be imported and called")

    doctor = add(
        "doctor",
        "check what a run will need; starts nothing",
        "doctor",
        "doctor lab.yaml --target hpc",
        "doctor --worker demeter-0      what protects runs on a live worker",
        "doctor --format json",
    )
    sweep_options(doctor, "also check that the function of this sweep can be imported and called")
    doctor.add_argument("--worker", metavar="W", help="instead: what protects runs on this worker of a live session")
    doctor.add_argument("--run-id", metavar="ID", help="whose worker is meant (default: the session that runs)")

    add("schema", "print the JSON Schema of manifests, for editors", "schema > scalable.schema.json")

    plan = add(
        "plan",
        "show what sweeps will need, take and cost; starts nothing",
        "plan",
        "plan calibration",
        "plan calibration --pilot     run a few jobs first, and plan from what they take",
        'plan calibration --objective "minimize time" --policy aggressive',
        "plan --format json --output plan.json",
    )
    sweep_options(plan, "default: all, run as admission allows")
    plan.add_argument("--dry-run", action="store_true", help="start nothing, not even a pilot")
    plan.add_argument("--output", metavar="F", help="write it to a file")
    pilot_option(plan)
    choice_options(plan)
    seed_option(plan)

    forecast = add(
        "forecast",
        "answer a question about the manifest as a whole, or replay a run",
        "forecast margins      what is left when everything runs at once",
        "forecast timeline     when nodes come and go",
        "forecast options      ways to run the same sweep, compared",
        "forecast month        what a month costs",
        "forecast growth       what more would need",
        "forecast acceptance   the criteria of the sizing, pass or fail",
        "forecast replay RUN   whether a recorded run would be decided the same again",
    )
    views = (*VIEWS, REPLAY)
    forecast.add_argument("view", choices=views, metavar="VIEW", help=", ".join(views))
    sweep_options(forecast, "timeline: default the first one; replay: the id or folder of a run, default the latest")
    seed_option(forecast)


def pilot_option(parser: argparse.ArgumentParser) -> None:
    text = "first run one job of each distinct cost, bounded by policies.pilot, and plan from what they took"
    parser.add_argument("--pilot", action="store_true", help=text)


def running_commands(add: Add) -> None:
    run = add(
        "run",
        "run a sweep, the manifest's tasks, or a workflow script with a live session",
        "run",
        "run calibration",
        "run calibration --dry-run     show the plan",
        "run calibration --fresh       compute again what is there",
        "run --target hpc --workflow pipeline.py",
        "run --workflow pipeline.py -- --year 2030     arguments after -- are the script's",
        "run calibration --target hpc --detach     as a batch job that outlives this shell",
    )
    sweep_options(run, "what the store lacks of it is computed; default: the manifest's only one, or its tasks")
    run.add_argument("--workflow", metavar="F.py", help="a script to run as __main__; its exit status is the truth")
    run.add_argument("--fresh", action="store_true", help="compute every row of the sweep again, after asking")
    run.add_argument("--yes", action="store_true", help="with --fresh: do not ask")
    pilot_option(run)
    choice_options(run)
    where_option(run, "only the rows of the sweep with this value of an axis; others are not expected")
    run.add_argument("--asset", metavar="A", help="the same as --where asset=A")
    run.add_argument("--here", action="store_true", help="on this machine with one worker, whatever the target is")
    run.add_argument("--profile", metavar="P", help="with --here: the size of its worker (default: as planned)")
    run.add_argument("--holder", metavar="ID", help="runs that name the same one are one sweep to all others")
    outlives = "as a driver that outlives this shell: a batch job on Slurm, else a process of its own"
    run.add_argument("--detach", action="store_true", help=outlives)
    run.add_argument("--dry-run", action="store_true", help="show the plan, as scalable plan does; start nothing")
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

    runs = add(
        "runs",
        "list the runs of the project, compare two of them, or delete some",
        "runs",
        "runs diff run-20260415T101500Z-lab-1a2b3c4d run-20260416T093000Z-lab-5e6f7a8b",
        "runs --all --format json",
        "runs delete --older-than 30d        shows what would go, then asks",
        "runs delete --max-size 1GB --yes    the oldest go first",
    )
    actions = ("list", "diff", "delete")
    runs.add_argument("action", nargs="?", default="list", choices=actions, metavar="ACTION", help="|".join(actions))
    runs.add_argument("ids", nargs="*", metavar="RUN", help="diff: two runs; delete: those to delete, by id or folder")
    runs.add_argument("--all", action="store_true", help="list every run (default: the latest 20)")
    runs.add_argument("--older-than", metavar="T", help="delete: runs that ended before this time, e.g. 30d")
    runs.add_argument("--max-size", metavar="SIZE", help="delete: the oldest, until no more than this is left")
    runs.add_argument("--dry-run", action="store_true", help="delete: show what would go, delete nothing")
    yes_option(runs)
    run_options(runs)

    logs = add(
        "logs",
        "show what workers printed",
        "logs -f",
        "logs demeter-3 --lines 500",
        "logs --driver -f      what a detached driver printed, also before its run begins",
    )
    logs.add_argument("worker", nargs="?", metavar="WORKER", help="one worker (default: all, merged)")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until the run is over")
    logs.add_argument("--driver", action="store_true", help="what the detached driver itself printed")
    logs.add_argument("--run-id", metavar="ID", help="default: the latest run that is running, then the latest")
    logs.add_argument("--lines", metavar="N", default="100", help="how many of the last lines of each (default: 100)")
    manifest_option(logs)

    incidents = add(
        "incidents",
        "show what went wrong in a run, where, and what would prevent it",
        "incidents",
        "incidents show 1",
        "incidents export 1 --output incident.json",
        "incidents --all --format json",
    )
    does = "show one with its stacks, or export it as one file to hand over, without secrets"
    incidents.add_argument("action", nargs="?", choices=("show", "export"), metavar="show|export", help=does)
    incidents.add_argument("number", nargs="?", metavar="N", help="its number in its run")
    incidents.add_argument("--run-id", metavar="ID", help="default: the latest run")
    incidents.add_argument("--all", action="store_true", help="those of all runs")
    where = "file to export to, - for standard output (default: incident-N.json)"
    incidents.add_argument("--output", metavar="F", help=where)
    run_options(incidents)


def sweep_commands(add: Add) -> None:
    def of_a_store(command: argparse.ArgumentParser) -> None:
        place_options(command)
        format_option(command)

    results = add(
        "results", "show what a sweep has given so far", "results calibration", "results calibration --all",
        "results calibration --check", "results calibration --format csv > rows.csv",
        "results calibration --output rows.parquet",
    )  # fmt: skip
    results.add_argument("named", nargs="?", metavar="SWEEP", help="default: the manifest's only one")
    results.add_argument("--sweep", metavar="NAME", help="the same as SWEEP")
    where_option(results, "only rows with this value of an axis")
    results.add_argument("--all", action="store_true", help="every row instead of means by variant")
    results.add_argument("--check", action="store_true", help="exit status 1 if a row is missing or failed")
    results.add_argument("--output", metavar="F", help="write it to a file; .csv, .parquet and .json say the format")
    place_options(results)
    forms = ("text", "json", "csv", "parquet")
    means = "text for people; json, csv or parquet (a file) for machines, with every row"
    results.add_argument("--format", choices=forms, help=means)

    slots = add(
        "slots", "show which sweeps run or wait among all that share the store, or take a slot for several runs",
        "slots", "slots take calibration --holder nightly-1     then: run calibration --holder nightly-1",
        "slots leave calibration --holder nightly-1", "slots stop node-7:4711     who waits for a slot gives up",
    )  # fmt: skip
    actions = ("list", "take", "leave", "stop")
    slots.add_argument("action", nargs="?", default="list", choices=actions, metavar="ACTION", help="|".join(actions))
    slots.add_argument(
        "sweep", nargs="?", metavar="SWEEP", help="take, leave: of this sweep; stop: the holder or run that waits"
    )
    slots.add_argument("--profile", metavar="P", help="take: the size of its workers (default: as planned)")
    slots.add_argument("--holder", metavar="ID", help="take, leave: a name that its runs share and no others have")
    of_a_store(slots)

    decide = add(
        "decide", "judge the variants of a sweep: LOCK, KEEP_AVAILABLE or ABANDON", "decide calibration",
        "decide calibration --format json",
    )  # fmt: skip
    sweep_options(decide)
    decide.add_argument("--variant", metavar="VARIANT", help="show all metrics and the rule of one variant")

    lock = add(
        "lock", "make a variant part of the base on which further sweeps run", "lock calibration isotonic",
        'lock n_features 50 --force --reason "half the memory for the same result"', "lock --undo", "lock --list",
    )  # fmt: skip
    lock.add_argument("factor", nargs="?", metavar="FACTOR", help="what the sweep varied")
    lock.add_argument("variant", nargs="?", metavar="VARIANT", help="one with the verdict LOCK, or the baseline")
    lock.add_argument("--sweep", metavar="S", help="whose decision counts (default: the one that varies the factor)")
    lock.add_argument("--force", action="store_true", help="whatever the verdict is; needs a reason")
    lock.add_argument("--reason", metavar="TEXT", help="kept with the lock, for those who ask")
    lock.add_argument("--undo", action="store_true", help="go back to what was before the last lock in force")
    lock.add_argument("--list", action="store_true", help="every lock there was, with its reason")
    of_a_store(lock)

    ledger = add(
        "ledger", "list the decisions that were made: how many, on which rows, with which verdicts", "ledger",
        "ledger calibration", "ledger --format csv > decisions.csv",
    )  # fmt: skip
    ledger.add_argument("named", nargs="?", metavar="SWEEP", help="default: all; or the path of a manifest")
    ledger.add_argument("--sweep", metavar="NAME", help="the same as SWEEP")
    place_options(ledger)
    means = "text for people; json or csv for machines"
    ledger.add_argument("--format", choices=("text", "json", "csv"), default="text", help=means)

    cache = add(
        "cache",
        "list or remove the kept results of stages (not those of @cacheable)",
        "cache ls",
        "cache gc --older-than 7d --dry-run",
        "cache gc --max-size 10GB       the longest unused go first",
        "cache gc --unreachable         what no sweep of the manifest would use now",
    )
    cache.add_argument("action", choices=("ls", "gc"), metavar="ls|gc", help="list, or remove what is not in use")
    cache.add_argument("--older-than", metavar="T", help="gc: what was not used for so long")
    cache.add_argument("--max-size", metavar="SIZE", help="gc: the longest unused, until no more than this is left")
    cache.add_argument("--unreachable", action="store_true", help="gc: what no declared sweep would use now")
    cache.add_argument("--dry-run", action="store_true", help="gc: say what would go, remove nothing")
    cache.add_argument("--artefacts", metavar="URL", help="another folder or URL than the manifest's")
    cache.add_argument("--manifest", metavar="F", help=MANIFEST_DEFAULT)
    format_option(cache)


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
            command.add_argument("--manifest", metavar="F", help=MANIFEST_DEFAULT)
            format_option(command)
        else:
            command.add_argument("--run-id", metavar="ID", help="default: the session that runs, then the latest")
            run_options(command)
        return command

    either = "W|RUN: a worker, or a run that is on one"
    about("workers", "show the workers of a live session and what each does", "workers", "workers --format json")
    dump = about("dump", "show what every thread of a worker or job is doing", "dump first --output F", names=either)
    dump.add_argument("--output", metavar="F", help="write it to a file")
    profile = about("profile", "draw a flame graph of a worker or job", "profile first --seconds 30", names=either)
    profile.add_argument("--seconds", metavar="S", default="10", help="how long to look (default: 10)")
    profile.add_argument("--output", metavar="F.svg", help="where to write it (default: profile-NAME-TIME.svg)")
    run_name = "RUN: default: the only one that is not finished"
    about("explain", "say why a run waits, failed or was tried again", "explain first", names=run_name, optional=True)
    kill_names = "NAME: a worker, a run, a sweep, or all for every run"
    examples = ("kill first", "kill demeter-3 --yes", "kill all")
    kill = about("kill", "end a worker, job or sweep now, with all its processes", *examples, names=kill_names)
    yes_option(kill)
    pause = about(
        "pause", "start nothing new in a live session", "pause", "pause --now      cost overrun: stop at once"
    )
    pause.add_argument("--now", action="store_true", help="stop what runs, to be run again later; send workers away")
    yes_option(pause)
    about("resume", "let a paused session go on", "resume")
    stop = about(
        "stop",
        "end a run in an orderly way, as Ctrl-C does; finished rows stay",
        "stop --dry-run",
        "stop --yes",
        "stop driver-20261117T101500Z-1a2b3c      a detached driver, also one that waits in a queue",
    )
    stop.add_argument("run", nargs="?", metavar="RUN", help="its id, or its driver's (default: what runs)")
    stop.add_argument("--dry-run", action="store_true", help="show what is in flight, stop nothing")
    yes_option(stop)
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
    place_options(rollback)
    format_option(rollback)
    forget = add(
        "forget",
        "forget a measured peak of memory that is no longer true, so that plans go by it no more",
        "forget peak calibration",
        "forget peak      every one",
    )
    forget.add_argument("what", choices=("peak",), metavar="peak", help="what is forgotten")
    forget.add_argument("name", nargs="?", metavar="NAME", help="a sweep, factor, component or task (default: all)")
    place_options(forget)
    format_option(forget)
    mark_names = "NAME: a sweep, a task, a run, a job or row as it is printed, or the key of a row"
    example = 'mark-failed calibration --reason "wrong prices in March"'
    mark = about("mark-failed", "let results count no longer, to be computed again", example, names=mark_names)
    where_option(mark, "only rows with this value of an axis")
    mark.add_argument("--reason", metavar="TEXT", help="what is wrong with them, for those who ask; needed to mark")
    mark.add_argument("--undo", action="store_true", help="let marked rows that had a result count again")
    mark.add_argument("--dry-run", action="store_true", help="show which rows are meant, change nothing")
    yes_option(mark)
    dlq = add(
        "dlq",
        "list, replay or drop what the store's database refused for good",
        "dlq list",
        "dlq replay --all      once the cause is gone",
        "dlq drop 3f2a --yes",
    )
    dlq_options(dlq)
    debug = about(
        "debug", "run what failed, or one row of a sweep, again here in the foreground", "debug first --pdb",
        "debug --sweep models --where dataset=wine --where fold=2", names="RUN: which", optional=True,
    )  # fmt: skip
    debug.add_argument("--pdb", action="store_true", help="enter the debugger where the error was raised")
    debug.add_argument("--sweep", metavar="S", help="instead: a row of this sweep, the first that matches")
    where_option(debug, "which row: its value on an axis")
    for name, axis in (("asset", "asset"), ("variant", "variant"), ("fold", "fold"), ("cost", "cost_bps")):
        debug.add_argument(f"--{name}", metavar=name[0].upper(), help=f"the same as --where {axis}=…")
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
    command.add_argument("--manifest", metavar="F", help=MANIFEST_DEFAULT)
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


SHELLS = ("bash", "zsh", "fish", "tcsh")
NAMES = ("sweeps", "targets")


def upkeep_commands(add: Add) -> None:
    deploy = add(
        "deploy",
        "write the files with which a cluster or Airflow runs a sweep by itself, or Prometheus watches; starts nothing",
        "deploy kubernetes calibration --output deploy",
        "deploy kubernetes --target cluster --helm --output chart",
        "deploy airflow calibration --output dags",
        "deploy prometheus --output watch",
    )
    deploy_options(deploy)

    completion = add(
        "completion",
        "print a shell completion script",
        "completion bash > ~/.local/share/bash-completion/completions/scalable",
        "completion zsh > ~/.zfunc/_scalable      with fpath=(~/.zfunc $fpath) before compinit in ~/.zshrc",
        "completion fish > ~/.config/fish/completions/scalable.fish",
        "completion sweeps      names in the manifest; what such a script asks for",
    )
    completion.add_argument("shell", choices=SHELLS + NAMES, metavar="SHELL", help=", ".join(SHELLS))


def deploy_options(command: argparse.ArgumentParser) -> None:
    systems = ("kubernetes", "airflow", "prometheus")
    command.add_argument("what", choices=systems, metavar="SYSTEM", help=", ".join(systems))
    sweep_options(command, "which to run; default: the manifest's only one, or its tasks")
    command.add_argument("--output", metavar="DIR", default="deploy", help="a folder to write to (default: deploy)")
    command.add_argument("--force", action="store_true", help="replace files of the same names in it")
    command.add_argument("--helm", action="store_true", help="kubernetes: a Helm chart instead of plain files")
    where = "kubernetes: ADDRESS:PORT of the API server, so that the driver may connect to nothing else there"
    command.add_argument("--api-server", metavar="A", help=where)
    scraped = "kubernetes: the namespace of your Prometheus, which may then ask the driver for its figures"
    command.add_argument("--prometheus", metavar="NS", help=scraped)
    runs = "prometheus: the folder of the runs to watch (default: SCALABLE_RUNS_DIR, then .scalable/runs)"
    command.add_argument("--runs", metavar="R", help=runs)
    alertmanager = "prometheus: HOST:PORT of the Alertmanager that is told (default: 127.0.0.1:9093)"
    command.add_argument("--alertmanager", metavar="A", help=alertmanager)
    pods = "prometheus: also watch drivers that are pods of this namespace"
    command.add_argument("--namespace", metavar="NS", help=pods)
