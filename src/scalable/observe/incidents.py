"""Records of what went wrong: one JSON file each, ``incidents/0001.json`` in the folder of its run.

A file is written beside and then linked to the first free number, so numbers are unique whoever writes, and no reader
sees a part. What becomes of the run is added later. Files that cannot be read are told of and passed over.
``Incident.summary`` is what a store keeps of one. How serious an incident is, seen with those before it, and what would
have prevented it stand at the end. Evidence as lines for people may come from an old or damaged file: nothing is taken
on trust.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

from scalable.errors import ScalableError, UsageError
from scalable.observe.fields import count, listed, mapping, number, text, texts
from scalable.observe.files import listing, make_private, open_regular, write_beside
from scalable.observe.folders import RunFolder, RunFolderError
from scalable.observe.journal import jsonable
from scalable.observe.redact import redact
from scalable.quantities import Duration, Memory

LONGEST_TEXT = 20_000  # characters of one text
LARGEST = 1 << 21  # bytes of a record; evidence is left out of a larger one
RUNS_LOOKED_AT = 100  # earlier runs of the same folder, the latest ones
MOST_EARLIER = 50  # earlier incidents that are read; the latest ones
NAMED = 20  # numbers listed in a message
SHORT_EVIDENCE = ("message", "notes", "peak", "limit", "memory", "fork_warnings", "stacks_by")  # small as it is
KEPT_LINES = 40  # of a stack, a log, or jobs in a summary
KEPT_TEXT = 1000  # characters of a text in it
PLACE = re.compile(r"[\w.-]+:\d+")  # a file and a line
AGAIN_WITHIN_S = 86_400.0  # the same within 24 hours
MUCH_MEMORY = 8 * 1024**3
NORMAL, HIGH = "normal", "high"
WAITING = re.compile(
    r"\b(acquire|wait|join|lock|get|recv|poll|select|_wait_for_tstate_lock|__enter__)\b", re.IGNORECASE
)
MOST_LINES = 2000  # of a page; nobody reads on
OUR_OWN = re.compile(r" - distributed\.[\w.]+ - INFO - |^(?:\S{24} )?scalable worker: ")  # what a worker says of itself
SETTINGS = re.compile(r"(?<=-m scalable\.worker\.runner) \{.*")  # how a runner is told what to do


class UnknownIncidentError(UsageError):
    """A number that no incident of the run has; the message names those there are."""


@dataclass(frozen=True, slots=True)
class Incident:
    kind: str
    """In words: stuck, over its walltime, out of memory, fork refused, crashed, worker lost, …"""
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
        """Return it as it is written down: plain, bounded and without secrets."""
        facts = {
            **{field_.name: getattr(self, field_.name) for field_ in fields(self)},
            "evidence": dict(self.evidence),
        }
        return dict(redact(jsonable({"id": facts.pop("id"), **facts}, LONGEST_TEXT)))

    def summary(self) -> dict[str, Any]:
        """Return what is worth keeping where the file is not: all but the greater part of the evidence."""
        facts = self.to_dict()
        evidence = facts["evidence"]
        short = {name: evidence[name] for name in SHORT_EVIDENCE if name in evidence}
        short |= {name: listed(evidence.get(name))[-KEPT_LINES:] for name in ("log", "jobs") if name in evidence}
        stacks = [mapping(stack) for stack in listed(evidence.get("stacks"))]
        if stacks:
            stack = next((stack for stack in stacks if blamed(stack, self.guilty)), stacks[0])
            short["stacks"] = [{**stack, "frames": listed(stack.get("frames"))[:KEPT_LINES]}]
        return {**facts, "evidence": jsonable(short, KEPT_TEXT)}

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Incident:
        """Read it from what a file says; what makes no sense is left out."""
        return cls(
            kind=text(facts.get("kind")) or "unknown",
            id=count(facts.get("id")),
            run=text(facts.get("run")),
            attempt=count(facts.get("attempt")),
            worker=text(facts.get("worker")),
            tag=text(facts.get("tag")) or None,
            host=text(facts.get("host")),
            started=number(facts.get("started")),
            found=number(facts.get("found")),
            found_after_s=number(facts.get("found_after_s")),
            threshold_s=number(facts.get("threshold_s")),
            guilty=text(facts.get("guilty")),
            evidence=mapping(facts.get("evidence")),
            done=texts(facts.get("done")),
            outcome=text(facts.get("outcome")),
            prevent=texts(facts.get("prevent")),
            severity=text(facts.get("severity")),
            escalation=text(facts.get("escalation")),
        )


def blamed(stack: Mapping[str, Any], guilty: str) -> bool:
    """Return whether a stack has one of the places that are to blame."""
    frames = " ".join(map(text, listed(stack.get("frames"))))
    return any(place in frames for place in PLACE.findall(guilty))


class IncidentFolder:
    """The incidents of one run."""

    def __init__(self, run_folder: Path | str) -> None:
        self.run = Path(run_folder)
        self.path = self.run / "incidents"
        self.damaged: dict[str, str] = {}
        """Files that held no incident when ``all`` looked last, and why."""
        self.unreadable: list[RunFolderError] = []
        """Files that may not be read, and why."""

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
            raise ScalableError(f"no incident can be recorded in {self.path}: {error.strerror}") from None
        return replace(incident, id=at)

    def update(self, number: int, *, outcome: str | None = None, done: tuple[str, ...] = ()) -> Incident:
        """Say what became of it, and what else was done."""
        known = self.get(number)
        changed = replace(known, outcome=known.outcome if outcome is None else outcome, done=(*known.done, *done))
        try:
            write_beside(self.file(number), text_of(changed))
        except OSError as error:
            raise ScalableError(f"{self.file(number)} cannot be written: {error.strerror}") from None
        return changed

    def all(self) -> list[Incident]:
        """Return those that can be read, in the order of their numbers; ``damaged`` and ``unreadable`` have the others.

        Raises ``RunFolderError`` if nobody here may see which there are.
        """
        self.damaged, self.unreadable = {}, []
        incidents = []
        for at in self.numbers():
            try:
                incidents.append(self.read(at))
            except FileNotFoundError:
                continue
            except OSError as error:
                self.unreadable.append(RunFolderError.unreadable(self.file(at), error))
            except (ValueError, RecursionError):
                self.damaged[self.file(at).name] = "it holds no incident"
        return incidents

    def get(self, number: int) -> Incident:
        known = self.numbers()
        if number not in known:
            listed = f"those there are: {span(known)}" if known else "there are none"
            raise UnknownIncidentError(f"incident {number} is not recorded in {self.run.name}; {listed}")
        try:
            return self.read(number)
        except OSError as error:
            raise RunFolderError.unreadable(self.file(number), error) from None
        except (ValueError, RecursionError):
            raise ScalableError(f"{self.file(number)} cannot be read: it is damaged") from None

    def read(self, number: int) -> Incident:
        """Raises ``ValueError`` for a file that holds no incident."""
        with open_regular(self.file(number)) as file:
            content = json.loads(file.read().decode("utf-8", "replace"))
        if not isinstance(content, dict) or not text(content.get("kind")):
            raise ValueError("no incident")
        return replace(Incident.of(content), id=number)

    def numbers(self) -> list[int]:
        try:
            names = [Path(name).stem for name in listing(self.path) if name.endswith(".json")]
        except OSError as error:
            raise RunFolderError.unreadable(self.path, error) from None
        return sorted(int(name) for name in names if name.isascii() and name.isdecimal() and len(name) < 10)

    def file(self, number: int) -> Path:
        return self.path / f"{number:04d}.json"


def earlier(run_folder: Path, now: float) -> list[Incident]:
    """Return the latest incidents of a day, in this run and those beside it; never more than is read in a moment."""
    runs = {run_folder.absolute()}
    with suppress(RunFolderError):
        runs |= {run.path for run in RunFolder.list(run_folder.absolute().parent)[-RUNS_LOOKED_AT:]}
    files = sorted((file for run in runs for file in recent_files(run / "incidents", now)), reverse=True)
    incidents = []
    for _, file in files[:MOST_EARLIER]:
        with suppress(OSError, ValueError, RecursionError):
            incidents.append(IncidentFolder(file.parent.parent).read(int(file.stem)))
    return incidents


def recent_files(folder: Path, now: float) -> Iterator[tuple[float, Path]]:
    known = IncidentFolder(folder.parent)
    with suppress(RunFolderError):  # another user's run
        for number_ in known.numbers()[-MOST_EARLIER:]:
            with suppress(OSError):
                written = known.file(number_).stat().st_mtime
                if written >= now - AGAIN_WITHIN_S:
                    yield written, known.file(number_)


def text_of(incident: Incident) -> str:
    content = json.dumps(incident.to_dict(), indent=2, ensure_ascii=False) + "\n"
    if len(content) > LARGEST:
        left_out = {"notes": [f"the evidence was left out: it had {len(content):,} characters"]}
        return text_of(replace(incident, evidence=left_out))
    return content


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
    """Return numbers in few words."""
    if len(numbers) > NAMED:
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))


class IncidentSeverity(NamedTuple):
    level: str
    """``normal`` or ``high``."""
    escalation: str
    """Why it is high and what to do; empty if it is not."""


def severity(incident: Incident, earlier: Iterable[Incident]) -> IncidentSeverity:
    """Return the same kind at the same place within a day, a fork in new code, or more than 8 GiB make it high."""
    before = [previous for previous in earlier if within_a_day(previous, incident)]
    same = [previous for previous in before if (previous.kind, place(previous)) == (incident.kind, place(incident))]
    reasons = []
    if same:
        last = max(same, key=moment)
        ago = Duration(max(0.0, moment(incident) - moment(last)))
        reasons.append(
            f"the same happened {ago} before ({len(same) + 1} times within 24 h): trying again does not help; "
            "change the code at that place, or mark the run failed (scalable ops mark-failed)"
        )
    if forked(incident) and not any(forked(previous) and place(previous) == place(incident) for previous in before):
        reasons.append(
            "a fork with threads in code that was not seen to do that: look at who added it, pass n_jobs=1, and "
            "test it with scalable.testing.assert_fork_safe"
        )
    if (used := memory(incident)) > MUCH_MEMORY:
        reasons.append(
            f"it used {Memory(used)}, more than {Memory(MUCH_MEMORY)}: find what grows before giving it more"
        )
    return IncidentSeverity(HIGH if reasons else NORMAL, "; ".join(reasons))


def advice(incident: Incident) -> tuple[str, ...]:
    """Return what would have prevented it, a sentence each."""
    notes = " ".join(map(text, incident.evidence.get("notes") or ()))
    if incident.kind == "fork refused":
        return ("pass n_jobs=1, or start processes by spawn; policies.fork.allow names modules that may fork",)
    if incident.kind == "out of memory":
        return (more_memory(incident),)
    if incident.kind == "over its walltime":
        return ("report progress (scalable.progress), or allow more time in policies.stuck.walltime",)
    if incident.kind != "stuck":
        return ()
    if "is stopped" in notes:
        return ("somebody stopped the process (SIGSTOP, Ctrl-Z, a debugger); nothing in the code is to blame",)
    if forked(incident) or "was forked" in notes or re.search(r"\bfork", incident.guilty):
        return ("pass n_jobs=1, or  policies.fork: deny",)
    if WAITING.search(incident.guilty.partition(" in ")[0]):
        return ("give that wait a timeout, so that it ends in an error that says what was missing",)
    return ("if it was only slow, report progress (scalable.progress) or declare the step (scalable.long_step)",)


def more_memory(incident: Incident) -> str:
    """Return the size to ask for, from the peak; from the limit if no peak was measured."""
    used, limit = Memory(memory(incident)), Memory(count(incident.evidence.get("limit")))
    size = Memory.to_ask_for(used, limit)
    if size is None:
        return "ask for more memory, or give each run less to do at once"
    why = f"it used {used}" if used >= limit else f"{limit} is the limit now"
    return f"ask for memory: {size.exact} ({why}), or give each run less to do at once"


def memory(incident: Incident) -> int:
    """Return the most it is known to have used."""
    return max(count(incident.evidence.get("peak")), count(incident.evidence.get("memory")))


def forked(incident: Incident) -> bool:
    return incident.kind == "fork refused" or count(incident.evidence.get("fork_warnings")) > 0


def place(incident: Incident) -> str:
    """Return where it happened, without lines, which change with every edit; else its kind of work."""
    return re.sub(r":\d+", "", incident.guilty) or f"{incident.tag or ''} {incident.run.partition('-')[0]}"


def within_a_day(incident: Incident, other: Incident) -> bool:
    return incident is not other and 0 <= moment(other) - moment(incident) <= AGAIN_WITHIN_S


def moment(incident: Incident) -> float:
    return incident.found or incident.started or 0.0


def evidence_lines(evidence: Mapping[str, Any]) -> list[str]:
    """Return a lost worker's jobs, processes, stacks, what faulthandler told and the log's end."""
    return [line for _, line in zip(range(MOST_LINES), all_lines(evidence), strict=False)]


def all_lines(evidence: Mapping[str, Any]) -> Iterator[str]:
    yield from block("its jobs", [text(job) for job in listed(evidence.get("jobs"))])
    processes = [mapping(entry) for entry in listed(evidence.get("processes"))]
    if processes:
        size = f", {Memory(used)} in memory" if (used := count(evidence.get("memory"))) else ""
        yield f"processes{size}"
    for entry in processes:
        yield f"  {process_line(entry)}"
    before = None
    for entry in [mapping(entry) for entry in listed(evidence.get("stacks"))]:
        if before != entry.get("pid"):
            before = entry.get("pid")
            yield f"stacks of {count(before)}"
        yield f"  {text(entry.get('thread')) or '?'}{'  (using a CPU)' if entry.get('active') is True else ''}"
        yield from (f"    {text(frame)}" for frame in listed(entry.get("frames")))
    if "py-spy" not in text(evidence.get("stacks_by")):  # else it says the same once more
        yield from block("faulthandler", text(evidence.get("faulthandler")).splitlines())
    log = [text(line) for line in listed(evidence.get("log"))]
    yield from block("last lines of the log", [line for line in log if not OUR_OWN.search(line)])
    if detail := text(evidence.get("detail")):
        yield from block("detail", detail.splitlines())


def process_line(process: Mapping[str, Any]) -> str:
    facts = [
        text(process.get("state")),
        f"in {waits}" if (waits := text(process.get("waits_in"))) else "",
        f"{threads} threads" if (threads := count(process.get("threads"))) > 1 else "",
        str(Memory(size)) if (size := count(process.get("resident"))) else "",
        f"{cpu:.1f} s of CPU" if (cpu := number(process.get("cpu_s"))) is not None else "",
    ]
    who = f"{count(process.get('pid'))} (of {count(process.get('parent'))})"
    return f"{who}  {', '.join(filter(None, facts))}  {SETTINGS.sub('', text(process.get('command')))}"


def block(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield title
        yield from (f"  {line}" for line in lines)
