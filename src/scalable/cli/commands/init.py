"""``scalable init``: write a commented manifest to start from, and the code it runs."""

from __future__ import annotations

import argparse
from importlib.resources import files
from pathlib import Path

from scalable.cli.output import console
from scalable.errors import UsageError
from scalable.observe.files import write_beside
from scalable.observe.folders import FILE
from scalable.wording import PLACE, command

FORMER = {"minimal": "trading"}
CODE = "experiment.py"  # the module that the templates with code of their own run


def run(options: argparse.Namespace) -> int:
    path = Path(options.path)
    written = {path: template(options.template, "yaml")}
    if code := template(options.template, "py.txt"):
        written[path.parent / CODE] = code
    for each in written:
        if each.exists() and not options.force:
            raise UsageError(f"{each} exists; --force overwrites it")
        if each.exists() and not each.is_file():  # a device or pipe would be replaced
            raise UsageError(f"{each} is not a file; name one, e.g. scalable.yaml")
    for each, text in written.items():
        try:
            write_beside(each, text, private=False)
        except OSError as error:
            raise UsageError(f"cannot write {each}: {error.strerror}") from None
    screen = console()
    screen.print(f"wrote {' and '.join(map(str, written))}", style="green", markup=False)
    PLACE.clear()
    next_step = command("plan", *([] if path == Path(FILE) else [path]))
    screen.print(f"  next:  {next_step}", markup=False)
    return 0


def template(name: str, kind: str) -> str:
    """Return a file of a template; empty if it has none of that kind."""
    file = files("scalable.cli").joinpath(f"templates/{FORMER.get(name, name)}.{kind}")
    return file.read_text(encoding="utf-8") if file.is_file() else ""
