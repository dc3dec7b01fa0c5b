"""``scalable ops dump``: what every thread of a worker or a run is doing, taken from outside without changing it."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.text import Text

from scalable.cli import operating
from scalable.cli.output import console, print_json
from scalable.observe import redact_text


def run(options: argparse.Namespace) -> int:
    folder = operating.chosen(options)
    answer = operating.asked(folder, "dump", within_s=operating.LOOK_WITHIN_S, target=options.name)
    text = redact_text(str(answer["text"])).rstrip("\n") + "\n"
    if options.format == "json":
        content = {"run_id": folder.run_id, "worker": answer["worker"], "run": answer["run"], "text": text}
        print_json({**content, "evidence": answer.get("evidence")})
    elif options.output is not None:
        operating.save(Path(options.output), text.encode("utf-8", "backslashreplace"))
        console().print(f"wrote {options.output}", soft_wrap=True)
    else:
        console().print(Text(text.rstrip("\n")), soft_wrap=True)
    return 0
