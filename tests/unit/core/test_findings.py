"""A finding as people, scripts and journals get it."""

from __future__ import annotations

import pytest

import scalable
from scalable.findings import Finding, Severity, SourcePlace
from scalable.manifest import ValidationReport, load_text

QUEUED = Finding("workers-queued", Severity.WARNING, "model", "1 model worker queued", "wait", essence="ordinary")


def test_the_public_name_of_a_manifests_finding_is_the_same_class() -> None:
    assert scalable.Issue is Finding


@pytest.mark.parametrize(
    ("finding", "text"),
    [
        (QUEUED, "1 model worker queued; wait"),
        (Finding.note("idle", "model", "it is idle"), "model: it is idle"),
        (Finding.error("bad", "store", "a store", place=SourcePlace("f.yaml", 2, 8)), "f.yaml:2:8  store: a store"),
        (
            Finding.error("bad", "store", "'store' is bad", place=SourcePlace("f.yaml", 2, 8)),
            "f.yaml:2:8  'store' is bad",
        ),
    ],
    ids=["named in the message", "not named", "a key that is a word too", "a quoted key"],
)
def test_the_text_says_what_it_is_about_once(finding: Finding, text: str) -> None:
    assert str(finding) == text


def test_scripts_get_every_field_and_the_place() -> None:
    assert Finding.error("bad", "store", "no", "write it", SourcePlace("f.yaml", 2, 8, 5)).to_dict() == {
        "code": "bad", "severity": "error", "path": "store", "message": "no", "remedy": "write it",
        "file": "f.yaml", "line": 2, "column": 8,
    }  # fmt: skip


@pytest.mark.parametrize("severity", Severity)
def test_a_journal_gives_back_what_was_written(severity: Severity) -> None:
    finding = Finding("workers-queued", severity, "model", "1 model worker queued", "wait")
    assert Finding.from_record(finding.to_record("finding")) == finding
    alert = Finding.from_record(finding.to_record("alert"))
    assert (alert.code, alert.severity, alert.message, alert.remedy) == (
        "workers-queued", severity, "1 model worker queued", "wait",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("word", "severity"),
    [("problem", Severity.ERROR), (None, Severity.WARNING), (7, Severity.WARNING)],
    ids=["of an earlier version", "none", "damaged"],
)
def test_a_journal_of_another_version_can_be_read(word: object, severity: Severity) -> None:
    assert Finding.from_record({"code": "paused", "text": "it waits", "severity": word}).severity is severity


def test_a_report_has_each_finding_once_in_the_order_of_the_text() -> None:
    late, early = (Finding.error("bad", "a", "no", place=SourcePlace("f.yaml", line, 1)) for line in (9, 2))
    warning = Finding.warning("odd", "b", "hm")
    assert ValidationReport.of([late, warning, early, late]) == ValidationReport((early, late), (warning,))


def test_an_entry_whose_name_begins_with_another_and_a_dot_is_found_at_its_own_line() -> None:
    text = """\
version: 1
project: {name: lab}
targets:
  a: {provider: local}
  a.b:
    provider: local
    max_worker: 5
"""
    [warning] = load_text(text, env={}).report.warnings
    assert (warning.path, warning.place.line, warning.place.column) == ("targets.a.b.max_worker", 7, 5)
