"""All findings about a manifest together, and the error that carries them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from scalable.errors import ScalableError
from scalable.findings import Finding, Severity
from scalable.observe.redact import HIDDEN, Redactor, redact_text

ABOUT_SECRETS = ("secret-in-manifest", "secret")  # codes of findings at whose place a secret stands
WEBHOOK = re.compile(r"""(\bwebhook["']?\s*:\s+)(?!\$\{)\S+""")  # who has the address may write to the channel

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
        """Return a report with each finding once, ordered by place, and without secrets that were refused."""
        discreet = (replace(finding, message=redact_text(finding.message)) for finding in findings)
        each = sorted(dict.fromkeys(discreet), key=lambda finding: (finding.place, finding.path))
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
        shown = {file: masked(text, self) for file, text in sources.items()}
        return "\n".join(finding.excerpt(shown.get(finding.place.file, "")) for finding in self)


def masked(text: str, findings: Iterable[Finding]) -> str:
    """Return a manifest's text as it may be printed: without secrets that findings or its own words tell of."""
    lines, redactor = text.splitlines(), Redactor()
    for finding in findings:
        place = finding.place
        if finding.code in ABOUT_SECRETS and finding.path and 1 <= place.line <= len(lines):
            line, start = lines[place.line - 1], place.column - 1
            end = start + max(place.length, len(HIDDEN))
            lines[place.line - 1] = f"{line[:start]}{HIDDEN:<{end - start}}{line[end:]}".rstrip()
    return "\n".join(redactor.line(WEBHOOK.sub(rf"\1{HIDDEN}", line)) for line in lines)


class ManifestError(ScalableError, ValueError):
    """A manifest that cannot be used. ``report`` has every finding; the text shows them with their lines."""

    def __init__(self, report: ValidationReport, sources: dict[str, str] | None = None) -> None:
        super().__init__(report.render(sources or {}))
        self.report = report
