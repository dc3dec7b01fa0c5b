"""The trials of a search, written down one by one so that a search that was stopped goes on where it was."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "trials.jsonl"


@dataclass(frozen=True, slots=True)
class Trial:
    number: int
    parameters: dict[str, float]
    score: float
    """The lower, the better."""
    rounds: int
    """How many trees gave that score."""


class Trials:
    """Those known so far, in order; new ones go into a file in ``folder``, if there is one, as lines of JSON.

    The file only saves time. Where it cannot be written the search goes on without it.
    """

    def __init__(self, folder: Path | None, at_most: int) -> None:
        self.file = folder / FILE if folder else None
        self.known = read(self.file)[:at_most] if self.file else []
        self.write("w", "".join(map(line, self.known)))  # without what a kill cut off

    @property
    def best(self) -> Trial:
        """The first of those with the lowest score."""
        return min(self.known, key=lambda trial: (trial.score, trial.number))

    def add(self, trial: Trial) -> None:
        self.known.append(trial)
        self.write("a", line(trial))

    def write(self, mode: str, text: str) -> None:
        if self.file:
            try:
                with self.file.open(mode, encoding="utf-8") as file:
                    file.write(text)
            except OSError:  # a full disk, say: whoever keeps the result will say so
                self.file = None


def line(trial: Trial) -> str:
    return json.dumps(asdict(trial)) + "\n"  # numbers come back from JSON exactly as they were


def read(file: Path) -> list[Trial]:
    """Up to the first line that is cut off or not the next trial: what follows it cannot be trusted."""
    found: list[Trial] = []
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return found
    for each in text.splitlines(keepends=True):
        try:
            trial = Trial(**json.loads(each))
        except (ValueError, TypeError):
            break
        if trial.number != len(found) or not each.endswith("\n"):
            break
        found.append(trial)
    return found
