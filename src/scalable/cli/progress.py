"""What a run is doing, shown while it runs: one line kept up to date on a terminal, plain lines in a pipe.

It reads the run's journal as ``scalable status`` does, so both always say the same. It writes to stderr; stdout belongs
to the user's script, whose lines reach it unchanged wherever it leads. ``Trouble`` tells of retries and losses once.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from scalable.cli.commands.incidents import limit
from scalable.cli.commands.status import looks_at, rate
from scalable.cli.output import errors
from scalable.errors import ScalableError
from scalable.observe import RunFolder
from scalable.observe.fields import listed, money, text
from scalable.observe.incidents import Incident, IncidentFolder, more_memory
from scalable.observe.liveness import Follower
from scalable.observe.redact import redact_text
from scalable.observe.words import one_line, step_number
from scalable.quantities import Duration
from scalable.wording import plural

EVERY_S = 0.5
FIGURE = re.compile(r"(?<![\w-])\d[\d.,]*")  # not one that is part of a name
LINE_EVERY_S = 10.0  # in a pipe, while nothing but counts change
WIDEST_BAR, NARROWEST_BAR = 24, 8
FEW = 2  # workers; of so few the line shows how far each is, of more how many there are
ERASE = "\r\x1b[2K"


@contextmanager
def progress_shown(run: RunFolder) -> Iterator[None]:
    """Show progress until the block ends."""
    screen = errors()
    if not screen.is_terminal or screen.is_dumb_terminal:
        with showing(run, in_pipe, screen):
            yield
        return
    line = StatusLine(screen)
    with line.below(sys.stdout, sys.stderr):
        try:
            with showing(run, on_terminal, line):
                yield
        finally:
            line.erase()


@contextmanager
def showing(run: RunFolder, show: Callable[..., None], where: Console | StatusLine) -> Iterator[None]:
    """Show progress in a thread of its own, which has ended when the block has."""
    over, follower = threading.Event(), Follower(run)
    thread = threading.Thread(
        target=show, args=(looks_at(follower), Trouble(follower), over, where), name="scalable-progress", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def on_terminal(looks: Iterator[dict[str, Any]], trouble: Trouble, over: threading.Event, line: StatusLine) -> None:
    while not over.wait(EVERY_S):
        line.show(next(looks), trouble.new())
    line.show(next(looks), trouble.new())  # what came last is not lost with the line


def in_pipe(looks: Iterator[dict[str, Any]], trouble: Trouble, over: threading.Event, screen: Console) -> None:
    """A line when workers change, when something is found or in trouble, and from time to time."""
    before: Any = None
    known: set[str] = set()
    quiet = 0.0
    while not over.wait(EVERY_S):
        tell(trouble, screen)
        status = next(looks)
        counts = {tag: (each["live"], each["pending"]) for tag, each in status["workers"].items()}
        lines = news(status, known)
        quiet += EVERY_S
        if counts != before or lines or quiet >= LINE_EVERY_S:
            screen.print(described(status), soft_wrap=True)
            for text in lines:
                screen.print(Text(f"  ! {text}"), soft_wrap=True)
            before, quiet = counts, 0.0
    tell(trouble, screen)


def news(status: Mapping[str, Any], known: set[str]) -> list[str]:
    """Findings that were not told yet. One that comes again, or with other figures, is none."""
    texts = {FIGURE.sub("", each["text"]): each["text"] for each in status["findings"]}
    new = [text for gist, text in texts.items() if gist not in known]
    known.update(texts)
    return new


def tell(trouble: Trouble, screen: Console) -> None:
    for line in trouble.new():
        screen.print(Text(f"! {line}"), soft_wrap=True)


class StatusLine:
    """The last line of a terminal. Whoever prints through the streams it lies below never runs into it."""

    def __init__(self, screen: Console) -> None:
        self.screen = screen
        self.lock = threading.RLock()
        self.drawn = False
        self.unfinished = False
        """Whether a script printed a part of a line; it is not drawn over."""
        self.known: set[str] = set()
        self.held: list[str] = []
        """Trouble that waits for a script to finish its line."""

    @contextmanager
    def below(self, *streams: TextIO) -> Iterator[None]:
        """Let this line give way to what is printed; streams that lead elsewhere are left as they are."""
        before = sys.stdout, sys.stderr
        ours = [Above(stream, self) if stream.isatty() else stream for stream in streams]
        sys.stdout, sys.stderr = ours
        try:
            yield
        finally:
            if sys.stdout is ours[0]:
                sys.stdout = before[0]
            if sys.stderr is ours[1]:
                sys.stderr = before[1]

    def show(self, status: Mapping[str, Any], trouble: Iterable[str] = ()) -> None:
        with self.lock:
            self.held += trouble
            if self.unfinished:
                return
            self.erase()
            for held in self.held:
                self.screen.print(Text(f"! {held}", style="yellow"), soft_wrap=True)
            self.held.clear()
            for line in news(status, self.known):
                self.screen.print(Text(f"! {line}", style="yellow"), soft_wrap=True)
            text = described(status, self.screen.width - 1)
            text.truncate(self.screen.width - 1, overflow="ellipsis")
            self.screen.print(text, end="", soft_wrap=True)
            self.screen.file.flush()
            self.drawn = True

    def erase(self) -> None:
        with self.lock:
            if self.drawn:
                self.screen.file.write(ERASE)
                self.screen.file.flush()
                self.drawn = False


class Above:
    """A terminal's stream whose texts come out above the status line; everything else of it is the stream's own."""

    def __init__(self, stream: TextIO, line: StatusLine) -> None:
        self.stream = stream
        self.line = line

    def write(self, text: str) -> int:
        with self.line.lock:
            self.line.erase()
            if text:
                self.line.unfinished = not text.endswith("\n")
            return self.stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def described(status: Mapping[str, Any], width: int | None = None) -> Text:
    """Everything in one line: workers, queue, rate, cost, time left; a bar if there is room and something to do."""
    workers, tasks = status["workers"].values(), status["tasks"].values()
    live, pending = (sum(each[name] for each in workers) for name in ("live", "pending"))
    counts = {name: sum(each[name] for each in tasks) for name in ("done", "running", "waiting", "failed")}
    parts = [plural(live, "worker") + (f" (+{pending})" if pending else "")]
    total = sum(counts.values())
    left = counts["running"] + counts["waiting"]  # none while it is not known yet what else there is to do
    done = counts["done"]
    if sweep := latest_sweep(status):
        there, total = sweep["there"] + sweep["rows"], sweep["expected"]
        done, left = there - sweep["failed"], total - there
        within = steps(status["runs"]) if live <= FEW and not pending else ""
        rows, units = f"{done:,}/{total:,} rows", f"{sweep['units_done']:,}/{sweep['units']:,} jobs"
        parts = [rows, units, within or parts[0]]
        parts += [f"{sweep['failed']:,} failed"] if sweep["failed"] else []
        parts += [f"{sweep['elsewhere']:,} from another run"] if sweep.get("elsewhere") else []
    else:
        parts.append(f"{done:,}{f'/{total:,}' if left else ''} done" if total else "no tasks yet")
        parts += [f"{counts[name]:,} {name}" for name in ("running", "waiting", "failed") if counts[name]]
    if retries := status.get("retries", 0):
        parts.append(plural(retries, "retry"))
    parts += ["paused"] if status.get("paused") else []
    cost = money(status["cost"])
    parts += [str(cost)] if cost is not None else []
    clock = f"  {Duration(status['elapsed_s'] or 0)}"
    clock += f", {Duration(status['left_s'])} left" if status["left_s"] is not None else ""
    speed = rate(status["rate_per_min"]) if status["rate_per_min"] is not None and not sweep else ""
    words = "  ".join(parts)
    room = WIDEST_BAR if width is None else width - len(f"{words}  {speed}{clock}") - 1
    if speed and room >= -1:
        words += f"  {speed}"
    text = Text(words).append(clock, style="dim")
    if left and room >= NARROWEST_BAR and drawable():
        text = Text.assemble((bar(done, total, min(room, WIDEST_BAR)), "green"), " ", text)
    return text


def steps(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return how far those are that say so: ``trial 12/30, 4/30``."""
    by_tag: dict[str, list[str]] = {}
    for each in runs:
        step = step_number(each)
        if step:
            by_tag.setdefault(one_line(each["note"] or "step").removesuffix(step).strip(), []).append(step)
    return ", ".join(f"{word} {', '.join(those)}" for word, those in by_tag.items())


def latest_sweep(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the sweep that runs, if one does: what counts then are its rows."""
    sweeps: list[Mapping[str, Any]] = [
        sweep for sweep in status.get("sweeps", {}).values() if sweep["status"] == "running"
    ]
    return sweeps[-1] if sweeps else None


def bar(done: int, total: int, width: int) -> str:
    filled = round(width * done / total)
    return "█" * filled + "░" * (width - filled)


def drawable() -> bool:
    """Return whether stderr can show a bar; where it cannot, the numbers do."""
    try:
        "█░".encode(sys.stderr.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


PLACES = [re.compile(before + r"(\S+?:\d+)") for before in ("called from ", r"\bin ", r"\(")]  # the user's own first


class Trouble:
    """``new`` has the lines since it was asked last; ``retries`` how often something was run again."""

    def __init__(self, follower: Follower) -> None:
        self.follower = follower
        self.folder = IncidentFolder(follower.run.path)
        self.latest: dict[str, Incident] = {}
        """By run, the last incident it had."""
        self.known: set[int] = set()
        self.retries = 0

    def new(self) -> list[str]:
        self.follower.look()
        view = self.follower.view
        recorded = [facts for number, facts in view.recorded.items() if number not in self.known]
        retried = view.retried[max(0, len(view.retried) - (view.retries.total() - self.retries)) :]
        self.retries = view.retries.total() - len(retried)
        news = [(facts["started"], self.incident_line, facts) for facts in recorded]
        news += [(facts["t"], self.retry_line, facts) for facts in retried]
        lines = [line(facts) for _, line, facts in sorted(news, key=lambda entry: entry[0])]
        return [redact_text(" ".join(line.split())) for line in lines]

    def incident_line(self, facts: Mapping[str, Any]) -> str:
        number, run = facts["id"], text(facts["run"])
        self.known.add(number)
        try:
            incident = self.folder.get(number)
        except ScalableError:  # on a disk that is slow or full; the journal has the main thing
            incident = Incident(facts["kind"], number, run, guilty=facts["evidence"]["detail"])
        for job in jobs_of(incident) or [run]:
            self.latest[job] = incident
        return f"incident {number}: {what(incident)}; scalable incidents show {number}"

    def retry_line(self, facts: Mapping[str, Any]) -> str:
        self.retries += 1
        times = plural(self.retries, "retry")
        known = self.latest.get(facts["run"])
        if known is None:
            return f"{times}: {facts['run']} is run again after: {facts['cause']}"
        if jobs_of(known):
            return f"{times}: {facts['run']} is run again after: {facts['cause']} (incident {known.id})"
        return f"{times}: {what(known)}, run again (incident {known.id})"


def jobs_of(incident: Incident) -> list[str]:
    """Return the jobs of a lost worker."""
    return [text(job) for job in listed(incident.evidence.get("jobs"))]


def what(incident: Incident) -> str:
    """``uni was stuck 5 s in jobs.py:20, killed``."""
    if "jobs" in incident.evidence:
        return f"{incident.worker} is gone with {plural(len(jobs_of(incident)), 'job')}: {incident.kind}"
    match = next((place for pattern in PLACES if (place := pattern.search(incident.guilty))), None)
    within = f" in {match[1]}" if match else ""
    if incident.kind == "stuck":
        silent = (incident.threshold_s or 0) + (incident.found_after_s or 0)
        return f"{incident.run} was stuck{f' {limit(round(silent))}' if silent else ''}{within}, killed"
    if incident.kind == "over its walltime":
        return f"{incident.run} was over its walltime{within}, killed"
    if incident.kind == "out of memory":
        end = "raised MemoryError" if incident.evidence.get("raised") else "ran out of memory, killed"
        return f"{incident.run} {end}; {more_memory(incident)}"
    if incident.kind == "fork refused":
        return f"{incident.run} was refused a fork{within}"
    return f"{incident.run} {incident.kind}{within}"
