"""The one form in which every room says that something should be known, and how it is shown to people and machines.

Checks of a manifest, ``scalable doctor``, the diagnosis of a live cluster, alert rules and the engine make findings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

WIDEST = 160  # a longer source line is cut in messages


class Severity(StrEnum):
    """The weight of a finding, the mildest first."""

    OK = "ok"  # was checked and is good; the others say that something is not
    NOTE = "note"  # works as asked and could be better; nothing is lost by ignoring it
    WARNING = "warning"  # goes on, but costs time, money or safety
    ERROR = "error"  # does not go on until somebody changes something
    PAGE = "page"  # as an error, and what runs meanwhile is lost: somebody should look now


@dataclass(frozen=True, slots=True, order=True)
class SourcePlace:
    """A stretch of a source text; lines and columns count from 1, and line 0 means that none is known."""

    file: str = ""
    line: int = 0
    column: int = 0
    length: int = 1


NOWHERE = SourcePlace()


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to know before or during a run."""

    code: str
    """Stable for machines."""
    severity: Severity
    path: str
    """What it is about: a key of the manifest (``pools.compute.max``), a kind of worker, or a run; may be empty."""
    message: str
    remedy: str = ""
    """What to do or to write instead."""
    place: SourcePlace = NOWHERE
    """Where that stands in the manifest."""
    essence: str = ""
    """What must change for a finding that is made again and again to be news, since figures in it always change."""

    @classmethod
    def ok(cls, code: str, path: str, message: str) -> Finding:
        return cls(code, Severity.OK, path, message)

    @classmethod
    def note(cls, code: str, path: str, message: str, remedy: str = "", place: SourcePlace = NOWHERE) -> Finding:
        return cls(code, Severity.NOTE, path, message, remedy, place)

    @classmethod
    def warning(cls, code: str, path: str, message: str, remedy: str = "", place: SourcePlace = NOWHERE) -> Finding:
        return cls(code, Severity.WARNING, path, message, remedy, place)

    @classmethod
    def error(cls, code: str, path: str, message: str, remedy: str = "", place: SourcePlace = NOWHERE) -> Finding:
        return cls(code, Severity.ERROR, path, message, remedy, place)

    @property
    def statement(self) -> str:
        """The place and the message, without the remedy."""
        spot = f"{self.place.file}:{self.place.line}:{self.place.column}  " if self.place.line else ""
        # In a manifest, a key such as ``store`` may be a word of the message too; elsewhere the message names it.
        named = f"'{self.path}'" if self.place.line else self.path
        path = f"{self.path}: " if self.path and named not in self.message else ""
        return f"{spot}{path}{self.message}"

    @property
    def advice(self) -> str:
        """The message and the remedy, for readers who see what it is about."""
        return f"{self.message}; {self.remedy}" if self.remedy else self.message

    def __str__(self) -> str:
        return f"{self.statement}; {self.remedy}" if self.remedy else self.statement

    def excerpt(self, source: str) -> str:
        """Return the finding with the lines of ``source`` that it is about and the remedy under the wrong text."""
        lines, place = source.splitlines(), self.place
        if not 1 <= place.line <= len(lines):
            return str(self)
        shown = [self.statement]
        shown += [f"{number:>6} | {cut(lines[number - 1])}" for number in range(max(1, place.line - 1), place.line + 1)]
        if self.remedy and place.column <= WIDEST:
            room = max(1, min(place.length, len(lines[place.line - 1]) - place.column + 1))
            shown.append(f"       | {' ' * (place.column - 1)}{'^' * min(room, WIDEST)} {self.remedy}")
        elif self.remedy:
            shown.append(f"       | {self.remedy}")
        return "\n".join(shown)

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as commands print it with ``--format json``."""
        facts = {"path": self.path, "message": self.message, "code": self.code, "remedy": self.remedy}
        spot = {"file": self.place.file, "line": self.place.line, "column": self.place.column}
        return {**facts, "severity": self.severity.value, **spot}

    def to_record(self, kind: Literal["finding", "alert"]) -> dict[str, Any]:
        """Return the finding as a journal keeps it in records of this kind."""
        named = {"finding": "code", "alert": "alert"}[kind]
        facts = {named: self.code, "text": self.message, "remedy": self.remedy, "severity": self.severity.value}
        return {**facts, "about": self.path} if kind == "finding" and self.path else facts

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Finding:
        """Read a finding or an alert of a journal, of this version or of an earlier one."""
        code = record.get("code") or record.get("alert") or "unknown"
        severity = RECORDED.get(str(record.get("severity")), Severity.WARNING)
        path, message, remedy = (str(record.get(name) or "") for name in ("about", "text", "remedy"))
        return cls(str(code), severity, path, message, remedy)


RECORDED = {**{each.value: each for each in Severity}, "problem": Severity.ERROR}
"""Severities by their words in journals; earlier versions wrote problem for error."""


def cut(line: str) -> str:
    line = line.replace("\t", " ")
    return line if len(line) <= WIDEST else line[: WIDEST - 1] + "…"
