"""The command line's grammar: which commands there are, in the order in which a newcomer meets them.

Only ``argparse`` is imported, so that ``--help`` is instant.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from scalable import __version__
from scalable.cli.arguments import (
    operator_commands,
    planning_commands,
    running_commands,
    sweep_commands,
    upkeep_commands,
)

EXAMPLES = """examples:
  scalable init --template ftf           write a commented scalable.yaml
  scalable plan --sweep calibration      see what it needs, takes and costs
  scalable run --sweep calibration       compute what is missing of it
  scalable status; scalable workers      what runs, and who works on what
  scalable explain RUN                   why it waits, failed or was tried again
  scalable decide calibration            what each variant is worth

scalable COMMAND --help  shows what a command takes, with examples
"""
GROUPS = {
    "describe and plan": planning_commands,
    "run and look": running_commands,
    "results and decisions": sweep_commands,
    "operate": operator_commands,
    "set up": upkeep_commands,
}


class Parser(argparse.ArgumentParser):
    """One that says what was probably meant by a word it does not know."""

    def error(self, message: str) -> NoReturn:
        if wrong := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            from difflib import get_close_matches

            near = get_close_matches(wrong[1], re.findall(r"[\w-]+", wrong[2]), n=1)
            message += f"; write {near[0]}" if near else ""
        super().error(message)


class CommandParser(Parser):
    """One that complains itself about what it does not know, with its own usage; argparse leaves it to the top."""

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> tuple[Any, list[str]]:  # type: ignore[override]
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            from difflib import get_close_matches

            near = get_close_matches(unknown[0].partition("=")[0], self._option_string_actions, n=1)
            self.error(f"unrecognized arguments: {' '.join(unknown)}" + (f"; write {near[0]}" if near else ""))
        return parsed, unknown


class TopParser(Parser):
    """Its help lists the commands by what they are for."""

    summaries: dict[str, dict[str, str]]

    def error(self, message: str) -> NoReturn:
        super().error(f"{message}; scalable --help  lists them" if message.endswith("required: COMMAND") else message)

    def format_help(self) -> str:
        widest = max(len(name) for group in self.summaries.values() for name in group)
        groups = [
            f"{title}:\n" + "\n".join(f"  {name:<{widest}}  {summary}" for name, summary in group.items())
            for title, group in self.summaries.items()
        ]
        return "\n\n".join([self.format_usage().strip(), str(self.description), *groups, EXAMPLES])


def parser() -> argparse.ArgumentParser:
    top = TopParser(
        prog="scalable",
        usage="scalable [--version] COMMAND [OPTIONS]",
        description="Describe a sweep once, see its size, time, cost and risk before paying, then run it anywhere.",
    )
    top.add_argument("--version", action="version", version=f"scalable {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=CommandParser)
    top.summaries = {title: {} for title in GROUPS}
    for title, commands_of in GROUPS.items():

        def add(name: str, summary: str, *examples: str, title: str = title) -> argparse.ArgumentParser:
            top.summaries[title][name] = summary
            return commands.add_parser(
                name,
                prog=f"scalable {name}",
                help=summary,
                description=f"{summary[0].upper()}{summary[1:]}.",
                epilog="examples:\n" + "\n".join(f"  scalable {example}" for example in examples),
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )

        commands_of(add)
    return top
