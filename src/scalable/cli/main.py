"""Calls the module of the command that is meant, and says in one line what went wrong."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module

from scalable.cli.arguments import GROUPED, REPLAY
from scalable.cli.parser import parser

RENAMED = {"places": "ops slots"} | {name: f"{group} {name}" for group, names in GROUPED.items() for name in names}
"""Commands by the name they had in the version before, with the one they have now."""
PROGRAMS = ("completion",)  # whose old name stays silent: shells that were set up before ask for names at every Tab
MANIFESTS = (".yaml", ".yml", ".json")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def main(arguments: Sequence[str] | None = None) -> int:
    safe_streams()
    ours, rest = split(renamed(list(sys.argv[1:] if arguments is None else arguments)))
    options = parser().parse_args(ours)
    options.rest = rest
    options.arguments = [*ours, "--", *rest] if rest else ours
    from scalable.errors import ScalableError, UsageError

    try:
        resolve(options)
        remember_place(options)
        set_log_level(os.environ.get("SCALABLE_LOG_LEVEL", ""))
        with waiting(options.command):
            command = import_module(f"scalable.cli.commands.{options.command.replace('-', '_')}")
        status: int = command.run(options)
        flush()
        return status
    except UsageError as error:
        return complain(error, 2)
    except ScalableError as error:
        return complain(error, 1)
    except BrokenPipeError:  # of a command that only prints
        flush()
        return 0
    except OSError as error:
        return complain(error, 1)
    except KeyboardInterrupt:
        return 130


def renamed(arguments: list[str]) -> list[str]:
    """Accept a command by the name it had in the version before, and say what it is called now."""
    old = arguments[0] if arguments else ""
    if old not in RENAMED:
        return arguments
    if old not in PROGRAMS:
        print(f"scalable {old} is now  scalable {RENAMED[old]}; the next version drops the old name", file=sys.stderr)
    return [*RENAMED[old].split(), *arguments[1:]]


def resolve(options: argparse.Namespace) -> None:
    """Take what stands in a sweep's place for the path of a manifest if it looks like one, else for a sweep."""
    from scalable.errors import UsageError

    named = getattr(options, "named", None)
    if named is None or getattr(options, "view", "") == REPLAY:  # which is about a run
        return
    if named.endswith(".py"):
        raise UsageError(f"{named} is a script; write  scalable run --workflow {named}")
    as_what = "manifest" if "/" in named or named.endswith(MANIFESTS) else "sweep"
    other = getattr(options, as_what)
    if other is not None and other != named:
        raise UsageError(f"{named} and --{as_what} {other} name two; leave out one of them")
    setattr(options, as_what, named)


def remember_place(options: argparse.Namespace) -> None:
    """Let the commands that messages suggest mean the manifest, target and overlay that this one was given."""
    from scalable.wording import PLACE

    given = {f"--{name}": getattr(options, name, None) for name in ("manifest", "target", "overlay")}
    PLACE.clear()
    PLACE.update({option: str(value) for option, value in given.items() if value})


def flush() -> None:
    """Print the rest, unless the reader has gone; the command's exit status is true all the same."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        from scalable.cli.output import mute

        mute()


def set_log_level(level: str) -> None:
    """How much of what the package logs is shown: warnings and worse if nothing is said."""
    if not level:
        return
    import logging

    from scalable.errors import UsageError

    if level.upper() not in LOG_LEVELS:
        raise UsageError(f"SCALABLE_LOG_LEVEL is {level!r}; write one of {', '.join(LOG_LEVELS)}")
    logging.getLogger("scalable").setLevel(level.upper())
    if logging.lastResort is not None:  # what shows records where nobody has set up anything else
        logging.lastResort.setLevel(level.upper())


def waiting(command: str) -> AbstractContextManager[None]:
    """Return a sign of life where what has to be imported takes a second or two."""
    if command != "run":
        return nullcontext()
    from scalable.cli.output import working

    return working("getting ready")


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our arguments, and those of ``run`` after ``--``, which belong to a workflow script."""
    at = arguments.index("--") if arguments[:1] == ["run"] and "--" in arguments else len(arguments)
    return arguments[:at], arguments[at + 1 :]


def safe_streams() -> None:
    """Output that is closed goes nowhere, and what an encoding lacks is replaced: neither ends in a traceback."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or stream.closed:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def complain(error: BaseException, status: int) -> int:
    from scalable.cli.output import errors

    errors().print(f"{error}", style="bold red" if "\n" not in str(error) else None, markup=False, soft_wrap=True)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
