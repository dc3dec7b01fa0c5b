"""``scalable admin completion``: a completion script for the shell, and the names such a script asks for.

Names are read from the manifest as it stands, checked or not: they are wanted while it is being written, and loading it
in earnest takes longer than a person waits for the Tab key.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import Any

from scalable.cli.arguments import NAMES
from scalable.observe.folders import find_manifest

FILES = ("manifest", "output", "path", "workflow")
FOLDERS = ("folder",)
NAMED = {
    "sweep": "sweeps",
    "named": "sweeps",
    "target": "targets",
}
"""By what the command line calls it: what the manifest calls it."""

PLAIN = re.compile(r"[\w.:@%+/-]+")  # bash expands what it is given to choose from: other names would be run at a Tab


def run(options: argparse.Namespace) -> int:
    if options.shell in NAMES:
        print("\n".join(names(options.shell)))
        return 0
    import shtab

    from scalable.cli.parser import parser

    top = parser()
    for action in actions(top):
        if action.dest in NAMED:
            action.complete = asking(NAMED[action.dest])  # type: ignore[attr-defined]
        elif action.dest in FILES + FOLDERS:
            action.complete = shtab.FILE if action.dest in FILES else shtab.DIRECTORY  # type: ignore[attr-defined]
    print(shtab.complete(top, shell=options.shell))
    return 0


def asking(part: str) -> Any:
    """Return how each shell gets names: when it completes one, in the folder it is in then."""
    import shtab

    command, function = f"scalable admin completion {part}", f"_scalable_{part}"
    ways: Any = shtab.cmd(command)  # in zsh that would ask for every option at every Tab, which takes seconds
    body = f'local -a names=(${{(f)"$({command})"}}); compadd -a names'
    return {**ways, "zsh": function, "preamble": {**ways["preamble"], "zsh": f"{function}() {{ {body} }}"}}


def names(part: str) -> list[str]:
    """Of one part of the manifest; none of one that cannot be read, for a shell that completes wants no errors."""
    import yaml

    try:
        manifest = yaml.safe_load(find_manifest().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return []
    there = manifest.get(part) if isinstance(manifest, dict) else None
    return [str(name) for name in there if PLAIN.fullmatch(str(name))] if isinstance(there, dict) else []


def actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from actions(command)
        else:
            yield action
