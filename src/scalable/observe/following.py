"""The view of a run whose journal is still written."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from scalable.observe.folders import RunFolder
from scalable.observe.liveness import State, state_of
from scalable.observe.reading import read
from scalable.observe.view import RunView


class Follower:
    """Takes in, at every look, what was written since the last one."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.start_anew()

    def start_anew(self) -> None:
        self.records, self.view = read(self.run.journal), RunView()
        self.reading: Iterator[dict[str, Any]] | None = None

    def look(self, most: int | None = None) -> bool:
        """Take in at most so many records; return whether that was all there is by now.

        Starts from the beginning when another journal has taken the place of the one that was read.
        """
        if self.records.shrunk:
            self.start_anew()
        self.reading = self.reading or self.records.new()
        before = self.view.records
        for record in islice(self.reading, most):
            self.view.take(record)
        if most is not None and self.view.records - before == most:
            return False
        self.reading = None
        return True

    @property
    def state(self) -> State:
        return state_of(self.view, self.run.facts())
