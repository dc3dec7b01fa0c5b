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
    GROUP_SUMMARIES,
    GROUPED,
    operator_commands,
    planning_commands,
    running_commands,
    sweep_commands,
    upkeep_commands,
)

EXAMPLES = """examples:
  scalable init                    write a commented scalable.yaml to start from
  scalable plan calibration        see what it needs, takes and costs
  scalable run calibration         compute what is missing of it
  scalable status                  what runs now
  scalable results calibration     what it gave
  scalable decide calibration      what each variant is worth

scalable COMMAND --help  shows what a command takes, with examples
"""
GROUPS = {
    "describe and plan": planning_commands,
    "run and look": running_commands,
    "results and decisions": sweep_commands,
    "when something is wrong": operator_commands,
    "set up": upkeep_commands,
}
MEANT = {
    "--force": "--fresh", "--overwrite": "--fresh", "--rerun": "--fresh", "--no-cache": "--fresh",
    "--script": "--workflow", "--file": "--manifest", "--config": "--manifest", "-f": "--manifest",
    "--json": "--format json", "--csv": "--format csv", "--name": "--sweep", "--run": "--run-id", "-y": "--yes",
    "-n": "--dry-run",
}  # fmt: skip
"""Options of other programs, and what does the same here; it counts where a command has it."""


class Parser(argparse.ArgumentParser):
    """A parser that says what was probably meant by a word it does not know."""

    def error(self, message: str) -> NoReturn:
        if wrong := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            from difflib import get_close_matches

            near = get_close_matches(wrong[1], re.findall(r"[\w-]+", wrong[2]), n=1)
            message += f"; write {near[0]}" if near else ""
        super().error(message)


class CommandParser(Parser):
    """A parser that complains itself about what it does not know, with its own usage; argparse leaves it to the top."""

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> tuple[Any, list[str]]:  # type: ignore[override]
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            near = self.meant(unknown[0].partition("=")[0])
            self.error(f"unrecognized arguments: {' '.join(unknown)}" + (f"; write {near}" if near else ""))
        return parsed, unknown

    def meant(self, word: str) -> str:
        """Return the option that was probably meant; nothing if none is alike."""
        from difflib import get_close_matches

        known = MEANT.get(word, "")
        if known.partition(" ")[0] in self._option_string_actions:
            return known
        return next(iter(get_close_matches(word, self._option_string_actions, n=1)), "")


class ListingParser(Parser):
    """A parser of commands, whose help lists them by what they are for."""

    summaries: dict[str, dict[str, str]]
    examples = ""

    def error(self, message: str) -> NoReturn:
        super().error(
            f"{message}; {self.prog} --help  lists them" if message.endswith("required: COMMAND") else message
        )

    def format_help(self) -> str:
        widest = max(len(name) for group in self.summaries.values() for name in group)
        groups = [
            f"{title}:\n" + "\n".join(f"  {name:<{widest}}  {summary}" for name, summary in group.items())
            for title, group in self.summaries.items()
        ]
        return "\n\n".join([self.format_usage().strip(), str(self.description), *groups, self.examples])


def new_parser(*, kind: type[Parser] = CommandParser, **options: Any) -> Any:
    """Return the parser of a command, or of a group of commands."""
    return kind(**options)


def parser() -> argparse.ArgumentParser:
    top = ListingParser(
        prog="scalable",
        usage="scalable [--version] COMMAND [SWEEP] [OPTIONS]",
        description="Describe a sweep once, see its size, time, cost and risk before paying, then run it anywhere.",
    )
    top.examples = EXAMPLES
    top.add_argument("--version", action="version", version=f"scalable {__version__}")
    made_by: Any = new_parser
    commands: Any = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=made_by)
    top.summaries = {title: {} for title in GROUPS if title != "set up"}
    parsers: dict[str, tuple[Any, dict[str, str], str]] = {}
    """By group: what adds a command to it, the summaries of its commands, and how it is called."""
    for group, summary in GROUP_SUMMARIES.items():
        made = commands.add_parser(
            group,
            kind=ListingParser,
            prog=f"scalable {group}",
            usage=f"scalable {group} COMMAND [OPTIONS]",
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
        )
        made.summaries = {"commands": {}}
        inner = made.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=made_by)
        parsers[group] = (inner, made.summaries["commands"], f"scalable {group}")
    group_of = {name: group for group, names in GROUPED.items() for name in names}
    for title, commands_of in GROUPS.items():

        def add(name: str, summary: str, *examples: str, title: str = title) -> argparse.ArgumentParser:
            daily = (commands, top.summaries.get(title, {}), "scalable")
            parent, summaries, called = parsers[group_of[name]] if name in group_of else daily
            summaries[name] = summary
            added: argparse.ArgumentParser = parent.add_parser(
                name,
                prog=f"{called} {name}",
                help=summary,
                description=f"{summary[0].upper()}{summary[1:]}.",
                epilog="examples:\n" + "\n".join(f"  {called} {example}" for example in examples),
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
            return added

        commands_of(add)
    top.summaries["less often"] = {
        group: f"{summary}: {', '.join(GROUPED[group])}" for group, summary in GROUP_SUMMARIES.items()
    }
    return top
