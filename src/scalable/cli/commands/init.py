"""``scalable init``: write a commented manifest."""

from __future__ import annotations

import argparse
from importlib.resources import files
from pathlib import Path

from scalable.cli.output import console
from scalable.errors import UsageError
from scalable.observe.files import write_beside
from scalable.observe.folders import FILE
from scalable.wording import PLACE, command


def run(options: argparse.Namespace) -> int:
    path = Path(options.path)
    text = files("scalable.cli").joinpath(f"templates/{options.template}.yaml").read_text(encoding="utf-8")
    if path.exists() and not options.force:
        raise UsageError(f"{path} exists; --force overwrites it")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a file; name one, e.g. scalable.yaml")  # a device or pipe would be replaced
    try:
        write_beside(path, text, private=False)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    screen = console()
    screen.print(f"wrote {path}", style="green", markup=False)
    PLACE.clear()
    next_step = command("plan", *([] if path == Path(FILE) else [path]))
    screen.print(f"  next:  {next_step}", markup=False)
    return 0
