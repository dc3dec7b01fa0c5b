"""Calls the module of the command that is meant, and says in one line what went wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module

from scalable.cli.parser import parser

RENAMED = {"places": "slots"}  # commands that had another name in the version before
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def main(arguments: Sequence[str] | None = None) -> int:
    safe_streams()
    ours, rest = split(renamed(list(sys.argv[1:] if arguments is None else arguments)))
    options = parser().parse_args(ours)
    options.rest = rest
    from scalable.errors import ScalableError, UsageError

    try:
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
    print(f"scalable {old} is now  scalable {RENAMED[old]}; the next version drops the old name", file=sys.stderr)
    return [RENAMED[old], *arguments[1:]]


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
