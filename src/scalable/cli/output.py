"""How results look: colour and bars on a terminal, the same text without colour in a pipe, JSON for machines."""

from __future__ import annotations

import io
import json
import os
import re
import select
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from scalable.observe.redact import redact_text
from scalable.quantities import Duration

if TYPE_CHECKING:
    from scalable.planning.simulation.outcome import NodeSpan

MUTED = Event()  # set when whoever read our output has gone
PIPE_WIDTH = 120  # columns when the output is no terminal and COLUMNS is not set
WHOLE: Literal["fold"] = "fold"  # a path or address that is longer than a line goes on in the next
LONGEST_NAME = 36  # columns of a name beside what is said about it; longer ones are cut
COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal obeys instead of showing it: it may overwrite what was said before, or send something."""


class Screen(Console):
    """A console that obeys nothing in what it shows: logs and errors are texts of code that others wrote.

    When its reader has gone, the command goes on in silence: its exit status is true all the same.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            if segment.control is None and COMMANDS.search(segment.text):
                yield Segment(harmless(segment.text), segment.style)
            else:
                yield segment

    def on_broken_pipe(self) -> None:
        mute()


def mute() -> None:
    """Send the rest of our output nowhere, since its reader (head, less) went away."""
    with suppress(OSError, ValueError, AttributeError):  # a stream of this process's own, in a test or a notebook
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    MUTED.set()


def harmless(text: str) -> str:
    """Return a text of code that others wrote with a mark in place of each character that a terminal obeys."""
    return COMMANDS.sub("�", COLOURS.sub("", text))


def print_traceback(error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of a job or script on stderr, without secrets, where no terminal obeys it."""
    sys.stderr.write(harmless(redact_text("".join(traceback.format_exception(type(error), error, trace)))))


def nobody_reads() -> bool:
    """Return whether stdout is a pipe whose reader is gone; one who only follows would learn it with the next line."""
    if MUTED.is_set():
        return True
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0))
    except (OSError, ValueError, AttributeError):  # a stream of this process's own, in a test or a notebook
        return False


def console(*, stderr: bool = False) -> Console:
    stream = Aside(sys.stderr) if stderr else sys.stdout
    if stream.isatty():
        return Screen(file=cast(TextIO, stream), highlight=False, emoji=False, markup=False)
    return Screen(file=Trimmed(stream), width=pipe_width(), highlight=False, emoji=False, markup=False)


def pipe_width() -> int:
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) >= 40 else PIPE_WIDTH


class Aside:
    """A stream for what is said beside the results: where nobody hears it any longer, nothing fails of that."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):  # a terminal that was closed, a pipe whose reader is gone, a full disk
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self.stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class Trimmed(io.StringIO):
    """A stream that leaves out the blanks tables put at the ends of their lines."""

    def __init__(self, stream: TextIO | Aside) -> None:
        super().__init__()
        self.stream = stream

    def write(self, text: str) -> int:
        return self.stream.write(re.sub(r" +$", "", text, flags=re.MULTILINE))

    def flush(self) -> None:
        self.stream.flush()


def errors() -> Console:
    return console(stderr=True)


def print_json(data: Any) -> None:
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(data, indent=2, ensure_ascii=not unicode)
    try:
        print(COMMANDS.sub(lambda match: f"\\u{ord(match[0]):04x}", text), flush=True)
    except BrokenPipeError:
        mute()


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner on a terminal while something takes longer. Print results after it, not within."""
    screen = errors()
    if not screen.is_terminal or screen.is_dumb_terminal:
        yield
        return
    with screen.status(f"{what} …"):
        yield


Cell = str | Text


def show_table(screen: Console, columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, indent: int = 0) -> None:
    """A table where there is room for it, else a block per row with a line for each column.

    Columns that start with ``>`` are aligned to the right.
    """
    shown = table(columns, rows)
    wide = screen.options.update(max_width=10_000)
    if screen.measure(shown, options=wide).maximum + indent <= screen.width or len(columns) < 4:
        screen.print(Padding(shown, (0, 0, 0, indent)))
        return
    for row in rows:
        first, *rest = row
        screen.print(Padding(verbatim(first), (0, 0, 0, indent)))
        named = [(column.lstrip(">"), cell) for column, cell in zip(columns[1:], rest, strict=True) if str(cell)]
        screen.print(Padding(facts(named), (0, 0, 0, indent + 2)))


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
    named = any(column.lstrip(">") for column in columns)
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=named)
    for column in columns:
        if column.startswith(">"):
            shown.add_column(column.removeprefix(">"), justify="right", no_wrap=True)
        else:
            shown.add_column(column, overflow=WHOLE)
    for row in rows:
        shown.add_row(*map(verbatim, row))
    return shown


def facts(pairs: Iterable[tuple[str, Cell]]) -> Table:
    """Return a name and what is to say about it, a line each."""
    shown = Table.grid(padding=(0, 2, 0, 0))
    shown.add_column(style="dim", no_wrap=True, max_width=LONGEST_NAME)
    shown.add_column(overflow=WHOLE)
    for name, text in pairs:
        shown.add_row(verbatim(name), verbatim(text))
    return shown


def verbatim(cell: Cell) -> Text:
    """Return a cell as it is: brackets in names are no markup."""
    return cell if isinstance(cell, Text) else Text(cell)


def note(mark: str, text: str, style: str = "") -> Padding:
    """Return a remark whose further lines are indented under its text."""
    line = Table.grid(padding=(0, 1, 0, 0))
    line.add_column()
    line.add_column(overflow=WHOLE)
    line.add_row(Text(mark, style=style), Text(text))
    return Padding(line, (0, 0, 0, 2))


STATUS_STYLE = {"ok": "green", "pass": "green", "warn": "yellow", "fail": "bold red", "unknown": "dim"}


def status(word: str) -> Text:
    return Text(word, style=STATUS_STYLE.get(word, ""))


def node_chart(screen: Console, spans: Sequence[NodeSpan], until: float) -> list[str]:
    """Return the lives of nodes, at most six lines of them: ░ starting, █ working, ▒ idle and paid."""
    if not spans or until <= 0:
        return []
    width = max(10, min(60, screen.width - 26))
    lines = []
    height = min(len(spans), 6)
    for row in range(height, 0, -1):
        place = round(row * len(spans) / height)
        node = spans[place - 1]
        cells = "".join(phase(node, until * (column + 0.5) / width) for column in range(width))
        lines.append(f"{'nodes' if row == height else '':<6}{place:>4} ┤{cells.rstrip()}")
    lines.append(f"{'':<6}{0:>4} ┼{'─' * width}▶ {Duration(until)}")
    lines.append(f"{'':<12}░ starting  █ working  ▒ idle, paid")
    return lines


def phase(node: NodeSpan, moment: float) -> str:
    if not node.requested <= moment < node.gone:
        return " "
    if moment < node.up:
        return "░"
    return "█" if moment < node.worked_until else "▒"


def margin_text(share: float) -> str:
    """Return a margin as people quote it: whole, but with a decimal where it is exactly a half, as in 12.5 %."""
    value = round(share * 100, 1)
    return f"{value:.1f} %" if value % 1 == 0.5 else f"{value:.0f} %"
