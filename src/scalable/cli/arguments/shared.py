"""Options that several commands have."""

from __future__ import annotations

import argparse
from typing import Protocol


class Add(Protocol):
    """Adds a command with its one-line summary and examples of its use."""

    def __call__(self, name: str, summary: str, *examples: str) -> argparse.ArgumentParser: ...


def manifest_options(command: argparse.ArgumentParser, otherwise: str = "") -> None:
    """``otherwise``: what else may stand in the manifest's place."""
    meaning = f"default: SCALABLE_MANIFEST, then ./scalable.yaml{otherwise}"
    command.add_argument("manifest", nargs="?", metavar="MANIFEST", help=meaning)
    command.add_argument("--target", metavar="T", help="default: SCALABLE_TARGET, then the manifest's first")
    command.add_argument("--overlay", metavar="O", help="an overlay to apply on top of the target's")
    format_option(command)


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
    command.add_argument("--manifest", metavar="M", help="only runs of this manifest")


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
