"""Records of what went wrong: one JSON file each, ``incidents/0001.json`` in the folder of its run.

A file is written beside and then linked to the first free number, so numbers are unique whoever writes, and no reader
sees a part. What becomes of the run is added later. Files that cannot be read are told of and passed over.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from scalable.errors import ScalableError, UsageError
from scalable.observe.encoding import jsonable
from scalable.observe.escalation import AGAIN_WITHIN_S, advice, severity
from scalable.observe.fields import count, mapping, number, text, texts
from scalable.observe.files import make_private, open_regular, write_beside
from scalable.observe.folders import RunFolder, RunFolderError
from scalable.observe.redact import redact

LONGEST_TEXT = 20_000  # characters of one text
LARGEST = 1 << 21  # bytes of a record; evidence is left out of a larger one
RUNS_LOOKED_AT = 100  # earlier runs of the same folder, the latest ones
MOST_EARLIER = 50  # earlier incidents that are read; the latest ones
NAMED = 20  # numbers listed in a message


class IncidentError(ScalableError):
    """An incident that cannot be recorded."""


class UnknownIncidentError(UsageError):
    """A number that no incident of the run has; the message names those there are."""


@dataclass(frozen=True, slots=True)
class Incident:
    kind: str
    """In words: stuck, out of memory, fork refused, crashed, worker lost, …"""
    id: int = 0
    """Its number in its run; 0 until it is recorded."""
    run: str = ""
    attempt: int = 0
    worker: str = ""
    tag: str | None = None
    host: str = ""
    started: float | None = None
    found: float | None = None
    found_after_s: float | None = None
    """Seconds between the threshold and the moment it was found."""
    threshold_s: float | None = None
    guilty: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    done: tuple[str, ...] = ()
    outcome: str = ""
    prevent: tuple[str, ...] = ()
    severity: str = ""
    escalation: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As it is written down: plain, bounded and without secrets."""
        found = {**{one.name: getattr(self, one.name) for one in fields(self)}, "evidence": dict(self.evidence)}
        return dict(redact(jsonable({"id": found.pop("id"), **found}, LONGEST_TEXT)))

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Incident:
        """From what a file says; what makes no sense is left out."""
        return cls(
            kind=text(found.get("kind")) or "unknown",
            id=count(found.get("id")),
            run=text(found.get("run")),
            attempt=count(found.get("attempt")),
            worker=text(found.get("worker")),
            tag=text(found.get("tag")) or None,
            host=text(found.get("host")),
            started=number(found.get("started")),
            found=number(found.get("found")),
            found_after_s=number(found.get("found_after_s")),
            threshold_s=number(found.get("threshold_s")),
            guilty=text(found.get("guilty")),
            evidence=mapping(found.get("evidence")),
            done=texts(found.get("done")),
            outcome=text(found.get("outcome")),
            prevent=texts(found.get("prevent")),
            severity=text(found.get("severity")),
            escalation=text(found.get("escalation")),
        )


class IncidentFolder:
    """The incidents of one run."""

    def __init__(self, run_folder: Path | str) -> None:
        self.run = Path(run_folder)
        self.path = self.run / "incidents"
        self.damaged: dict[str, str] = {}
        """Files that could not be read when ``all`` looked last, and why."""

    def open(self, incident: Incident) -> Incident:
        """Record it under the next number. Severity and advice are added if it has none."""
        if not incident.severity:
            level, escalation = severity(incident, earlier(self.run, incident.found or time.time()))
            incident = replace(incident, severity=level, escalation=escalation)
        if not incident.prevent:
            incident = replace(incident, prevent=advice(incident))
        try:
            make_private(self.path, exist_ok=True)
            at = max(self.numbers(), default=0) + 1
            while not write_new(self.file(at), text_of(replace(incident, id=at))):
                at += 1
        except OSError as error:
            raise IncidentError(f"no incident can be recorded in {self.path}: {error.strerror}") from None
        return replace(incident, id=at)

    def update(self, number: int, *, outcome: str | None = None, done: tuple[str, ...] = ()) -> Incident:
        """Say what became of it, and what else was done."""
        known = self.get(number)
        changed = replace(known, outcome=known.outcome if outcome is None else outcome, done=(*known.done, *done))
        try:
            write_beside(self.file(number), text_of(changed))
        except OSError as error:
            raise IncidentError(f"{self.file(number)} cannot be written: {error.strerror}") from None
        return changed

    def all(self) -> list[Incident]:
        """Those that can be read, in the order of their numbers; ``damaged`` has the others."""
        self.damaged = {}
        found = []
        for at in self.numbers():
            try:
                found.append(self.read(at))
            except FileNotFoundError:
                continue
            except (OSError, ValueError, RecursionError) as error:
                self.damaged[self.file(at).name] = getattr(error, "strerror", None) or "it holds no incident"
        return found

    def get(self, number: int) -> Incident:
        known = self.numbers()
        if number not in known:
            listed = f"those there are: {span(known)}" if known else "there are none"
            raise UnknownIncidentError(f"incident {number} is not recorded in {self.run.name}; {listed}")
        try:
            return self.read(number)
        except (OSError, ValueError, RecursionError):
            raise IncidentError(f"{self.file(number)} cannot be read: it is damaged") from None

    def read(self, number: int) -> Incident:
        """Raises ``ValueError`` for a file that holds no incident."""
        with open_regular(self.file(number)) as file:
            found = json.loads(file.read().decode("utf-8", "replace"))
        if not isinstance(found, dict) or not text(found.get("kind")):
            raise ValueError("no incident")
        return replace(Incident.of(found), id=number)

    def numbers(self) -> list[int]:
        try:
            names = [entry.stem for entry in self.path.iterdir() if entry.suffix == ".json"]
        except OSError:
            return []
        return sorted(int(name) for name in names if name.isascii() and name.isdecimal() and len(name) < 10)

    def file(self, number: int) -> Path:
        return self.path / f"{number:04d}.json"


def earlier(run_folder: Path, now: float) -> list[Incident]:
    """The latest incidents of a day, in this run and those beside it; never more than is read in a moment."""
    runs = {run_folder.absolute()}
    with suppress(RunFolderError):
        runs |= {run.path for run in RunFolder.list(run_folder.absolute().parent)[-RUNS_LOOKED_AT:]}
    files = sorted((file for run in runs for file in recent_files(run / "incidents", now)), reverse=True)
    found = []
    for _, file in files[:MOST_EARLIER]:
        with suppress(OSError, ValueError, RecursionError):
            found.append(IncidentFolder(file.parent.parent).read(int(file.stem)))
    return found


def recent_files(folder: Path, now: float) -> Iterator[tuple[float, Path]]:
    known = IncidentFolder(folder.parent)
    for number_ in known.numbers()[-MOST_EARLIER:]:
        with suppress(OSError):
            written = known.file(number_).stat().st_mtime
            if written >= now - AGAIN_WITHIN_S:
                yield written, known.file(number_)


def text_of(incident: Incident) -> str:
    said = json.dumps(incident.to_dict(), indent=2, ensure_ascii=False) + "\n"
    if len(said) > LARGEST:
        left_out = {"notes": [f"the evidence was left out: it had {len(said):,} characters"]}
        return text_of(replace(incident, evidence=left_out))
    return said


def write_new(path: Path, content: str) -> bool:
    """Write a file that is not there yet, whole or not at all; false if somebody else's is there."""
    beside = path.with_name(f".{token_hex(8)}.part")
    write_beside(beside, content)
    try:
        os.link(beside, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links: take the number first, then replace what holds it
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            return False
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return True


def span(numbers: list[int]) -> str:
    """Numbers in few words."""
    if len(numbers) > NAMED:
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))
