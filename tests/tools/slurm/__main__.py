"""The private Slurm for people: ``python -m tests.tools.slurm up FOLDER``, then down, crash, restore."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

from tests.tools.errors import ToolError
from tests.tools.slurm import MemoryRule, PrivateSlurm, Settings

DEFAULT = Settings()


def main() -> int:
    arguments = parser().parse_args()
    try:
        arguments.command(arguments)
    except ToolError as error:
        print(f"slurm: {error}", file=sys.stderr)
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m tests.tools.slurm", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    start = commands.add_parser("up", help="start a cluster, or what is missing of it; prints the export to use it")
    start.add_argument("folder", type=Path)
    start.add_argument("--nodes", type=int, default=DEFAULT.nodes)
    start.add_argument("--cpus", type=int, default=DEFAULT.cpus, help="of each node; may exceed the machine's")
    start.add_argument("--memory-mb", type=int, default=DEFAULT.memory_mb, help="of each node")
    rules = "who stops a job over its --mem: polling, the kernel (root, cgroup v1), nobody"
    start.add_argument("--memory", type=MemoryRule, choices=list(MemoryRule), default=DEFAULT.memory, help=rules)
    start.add_argument(
        "--slurmd-timeout", type=int, default=DEFAULT.slurmd_timeout_s, help="until a silent node is down"
    )
    start.add_argument("--partition", default=DEFAULT.partition)
    start.add_argument("--prefix", default=DEFAULT.prefix, help="letters the nodes' names begin with")
    start.add_argument("--extra", action="append", default=[], metavar="LINE", help="one more line of slurm.conf")
    start.set_defaults(command=up)

    stop = commands.add_parser("down", help="stop a cluster")
    stop.add_argument("folder", type=Path)
    stop.add_argument("--purge", action="store_true", help="and delete its folder")
    stop.set_defaults(command=down)

    kill = commands.add_parser("crash", help="kill a node with its jobs")
    kill.add_argument("folder", type=Path)
    kill.add_argument("node")
    kill.add_argument("--keep-jobs", action="store_true", help="cut it off only: its jobs go on")
    kill.set_defaults(command=lambda a: PrivateSlurm.existing(a.folder).crash(a.node, keep_jobs=a.keep_jobs))

    revive = commands.add_parser("restore", help="bring a crashed node back")
    revive.add_argument("folder", type=Path)
    revive.add_argument("node")
    revive.set_defaults(command=lambda a: PrivateSlurm.existing(a.folder).restore(a.node))

    watch = commands.add_parser("guard", help="stop the cluster when standard input ends (used by the tests)")
    watch.add_argument("folder", type=Path)
    watch.set_defaults(command=guard)
    return top


def up(arguments: argparse.Namespace) -> None:
    started = time.monotonic()
    slurm = PrivateSlurm(
        arguments.folder,
        Settings(
            nodes=arguments.nodes,
            cpus=arguments.cpus,
            memory_mb=arguments.memory_mb,
            memory=arguments.memory,
            slurmd_timeout_s=arguments.slurmd_timeout,
            partition=arguments.partition,
            prefix=arguments.prefix,
            extra=tuple(arguments.extra),
        ),
    )
    slurm.start()
    states = " ".join(f"{node}={state}" for node, state in sorted(slurm.nodes().items()))
    print(f"{states}, ready in {time.monotonic() - started:.1f} s", file=sys.stderr)
    print(f"export SLURM_CONF={slurm.paths.conf}")


def down(arguments: argparse.Namespace) -> None:
    slurm = PrivateSlurm.existing(arguments.folder)
    slurm.stop()
    if arguments.purge:
        shutil.rmtree(slurm.paths.folder)


def guard(arguments: argparse.Namespace) -> None:
    sys.stdin.buffer.read()
    if PrivateSlurm(arguments.folder).paths.record.exists():
        PrivateSlurm.existing(arguments.folder).stop()


if __name__ == "__main__":
    raise SystemExit(main())
