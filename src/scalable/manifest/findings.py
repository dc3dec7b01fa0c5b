"""What a check found: where it stands, what is wrong, what to write instead, and how that is shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from scalable.errors import ScalableError


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A stretch of a source text; lines and columns count from 1."""

    file: str = ""
    line: int = 0
    column: int = 0
    length: int = 1


@dataclass(frozen=True, slots=True)
class Issue:
    """One finding. ``path`` is dotted (``pools.compute.max``), ``code`` is stable for machines."""

    path: str
    message: str
    code: str
    remedy: str = ""
    place: Place = field(default_factory=Place)

    def __str__(self) -> str:
        spot = f"{self.place.file}:{self.place.line}:{self.place.column}  " if self.place.line else ""
        path = f"{self.path}: " if self.path and f"'{self.path}'" not in self.message else ""
        end = f"; {self.remedy}" if self.remedy else ""
        return f"{spot}{path}{self.message}{end}"


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """All that was found, in the order of the source text."""

    errors: tuple[Issue, ...] = ()
    warnings: tuple[Issue, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.errors

    @classmethod
    def of(cls, errors: Iterable[Issue] = (), warnings: Iterable[Issue] = ()) -> ValidationReport:
        """A report with each finding once, ordered by place."""

        def tidy(issues: Iterable[Issue]) -> tuple[Issue, ...]:
            return tuple(sorted(dict.fromkeys(issues), key=lambda issue: (issue.place, issue.path)))

        return cls(tidy(errors), tidy(warnings))

    def __add__(self, other: ValidationReport) -> ValidationReport:
        return ValidationReport.of(self.errors + other.errors, self.warnings + other.warnings)

    def render(self, sources: dict[str, str]) -> str:
        """Every finding with the lines it stands in and the remedy under the wrong text."""
        return "\n".join(excerpt(issue, sources.get(issue.place.file, "")) for issue in (*self.errors, *self.warnings))


class ManifestError(ScalableError, ValueError):
    """A manifest that cannot be used. ``report`` has every finding; the text shows them with their lines."""

    def __init__(self, report: ValidationReport, sources: dict[str, str] | None = None) -> None:
        super().__init__(report.render(sources or {}))
        self.report = report


def excerpt(issue: Issue, source: str) -> str:
    lines = source.splitlines()
    place = issue.place
    if not 1 <= place.line <= len(lines):
        return str(issue)
    spot = f"{place.file}:{place.line}:{place.column}"
    path = f"{issue.path}: " if issue.path and f"'{issue.path}'" not in issue.message else ""
    shown = [f"{spot}  {path}{issue.message}"]
    shown += [f"{number:>6} | {cut(lines[number - 1])}" for number in range(max(1, place.line - 1), place.line + 1)]
    if issue.remedy and place.column <= WIDEST:
        room = max(1, min(place.length, len(lines[place.line - 1]) - place.column + 1))
        shown.append(f"       | {' ' * (place.column - 1)}{'^' * min(room, WIDEST)} {issue.remedy}")
    elif issue.remedy:
        shown.append(f"       | {issue.remedy}")
    return "\n".join(shown)


WIDEST = 160  # a longer source line is cut in messages


def cut(line: str) -> str:
    line = line.replace("\t", " ")
    return line if len(line) <= WIDEST else line[: WIDEST - 1] + "…"
