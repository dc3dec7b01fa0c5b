"""All findings about a manifest together, and the error that carries them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scalable.errors import ScalableError
from scalable.findings import Finding, Severity

Issue = Finding
"""The name that a finding about a manifest has in the public interface."""


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """All that was found, in the order of the source text."""

    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.errors

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> ValidationReport:
        """Return a report with each finding once, ordered by place."""
        each = sorted(dict.fromkeys(findings), key=lambda finding: (finding.place, finding.path))
        errors = tuple(finding for finding in each if finding.severity is Severity.ERROR)
        return cls(errors, tuple(finding for finding in each if finding.severity is not Severity.ERROR))

    def __add__(self, other: ValidationReport) -> ValidationReport:
        return ValidationReport.of((*self, *other))

    def __iter__(self) -> Iterator[Finding]:
        """Yield the errors, then the warnings."""
        yield from self.errors
        yield from self.warnings

    def render(self, sources: dict[str, str]) -> str:
        """Return every finding with the lines it stands in and the remedy under the wrong text."""
        return "\n".join(finding.excerpt(sources.get(finding.place.file, "")) for finding in self)


class ManifestError(ScalableError, ValueError):
    """A manifest that cannot be used. ``report`` has every finding; the text shows them with their lines."""

    def __init__(self, report: ValidationReport, sources: dict[str, str] | None = None) -> None:
        super().__init__(report.render(sources or {}))
        self.report = report
