"""The page of a run: what it tells, what it leaves out, and that nothing others wrote can act on it."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest

from scalable.observe import RunFolder
from scalable.observe.incidents import Incident, IncidentFolder
from scalable.observe.liveness import RunState
from scalable.observe.redact import KNOWN
from scalable.observe.report import current
from scalable.show.report.drawing import date_ticks
from scalable.show.report.material import material_of
from scalable.show.report.page import page
from tests.helpers.observe.builders import START, a_live_run, a_run, lost, record, task
from tests.helpers.report.builders import Read, made, plain_run, troubled_run

SECRETS = """store: postgresql://me:hunter2@db/rows
env:
  DB_PASSWORD: correct, horse hunter2
  SIGNING_KEY: |
    line
    hunter2
  PLAIN: shown
tasks: {one: {environment: {API_KEY: some hunter2, other: shown}}}
"""
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;"


def test_a_run_of_plain_tasks_has_what_there_is_to_say_and_nothing_else(tmp_path: Path) -> None:
    found = Read(made(plain_run(tmp_path)))
    assert found.titles == ["Summary", "Timeline", "Plan against actual", "Memory", "Scaling", "Work", "Provenance"]
    assert "tasks 3 1 failed" in found.said("Summary")
    assert "1 failure" in found.said("Work") and "ValueError: third is bad" in found.said("Work")
    assert "7 GiB 8 GiB 87.5 %" in found.said("Memory")
    assert "+1 demeter 0 of at least 1 worker" in found.said("Scaling")


def test_all_that_went_wrong_is_told_with_its_evidence(tmp_path: Path) -> None:
    found = Read(made(troubled_run(tmp_path)))
    assert "out of memory" in found.said("Losses and retries")
    told = found.said("Incidents")
    assert "Incident 1: out of memory" in told and "fit at model.py:12" in told and "killed" in told
    assert "memory: 10GiB" in found.said("Findings and alerts")
    assert "WorkerMemory firing warning" in found.said("Findings and alerts")
    assert "WorkerMemory resolved warning" in found.said("Findings and alerts")


def test_the_bill_stands_beside_plan_and_budget(tmp_path: Path) -> None:
    found = Read(made(troubled_run(tmp_path)))
    told = found.said("Cost")
    assert "EUR 95.00" in told, "95 s of a node that costs 1 EUR a second"
    assert "planned EUR 60.00" in told and "budget EUR 200.00" in told
    assert re.search(r"charged to no row EUR \d+", told)
    assert "cost EUR 60.00 EUR 95.00 × 1.58" in found.said("Plan against actual")


def test_a_run_that_is_under_way_says_so(tmp_path: Path) -> None:
    folder = a_live_run(tmp_path, task("first"))
    found = Read(page(material_of(folder)))
    assert "This run is under way." in found.said("")
    assert "under way" not in Read(made(plain_run(tmp_path))).said("")


def test_a_run_that_left_nothing_has_a_page(tmp_path: Path) -> None:
    folder = RunFolder.create("lab", tmp_path)
    assert "nothing was recorded" in Read(made(folder)).said("")


def test_a_journal_that_was_cut_off_is_told_of(tmp_path: Path) -> None:
    folder = plain_run(tmp_path)
    with folder.journal.open("a", encoding="utf-8") as journal:
        journal.write('{"t": 1, "kind"')
    assert "ends in the middle of a line" in Read(made(folder)).said("Provenance")


def test_markup_in_names_and_errors_is_text(tmp_path: Path) -> None:
    hurt = record("task", 50, key=MARKUP, tag=MARKUP, worker="w1", status="failed", error=MARKUP)
    scaled = record("scale", 2, direction="up", tag=MARKUP, count=1, reason=MARKUP)
    found = Read(made(plain_run(tmp_path, hurt, scaled, command=[MARKUP], version=MARKUP)))
    assert not {"script", "img"} & {name for name, _ in found.elements}
    assert not [name for _, given in found.elements for name in given if name.startswith("on")]
    assert "<script>alert(1)</script>" in found.said("Work"), "shown as it was written"


def test_a_terminals_commands_are_shown_as_a_mark(tmp_path: Path) -> None:
    text = made(plain_run(tmp_path, record("task", 50, key="x", tag="y", status="failed", error="red \x1b[31m\x00")))
    assert "\x1b" not in text and "\x00" not in text and "red �[31m�" in text


def test_secrets_are_hidden_wherever_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_TOKEN", "s3cr3t-of-the-lab")
    monkeypatch.setattr(KNOWN, "looked", float("-inf"))
    manifest = tmp_path / "scalable.yaml"
    manifest.write_text(SECRETS, encoding="utf-8")
    error = "cannot reach https://me:hunter2@host with s3cr3t-of-the-lab, password=hunter2"
    failed = record("task", 50, key="x", tag="y", status="failed", error=error)
    facts = {"manifest": str(manifest), "command": ["run", "--token", "hunter2"]}
    text = made(plain_run(tmp_path, failed, record("alert", 51, alert="x", text=error), **facts))
    assert "hunter2" not in text and "s3cr3t-of-the-lab" not in text
    assert "https://me:***@host" in text and "postgresql://me:***@db/rows" in text
    assert "  PLAIN: shown" in text and "other: shown" in text


def test_a_page_runs_no_script_and_refers_to_nothing_outside(tmp_path: Path) -> None:
    text = made(troubled_run(tmp_path))
    found = Read(text)
    assert not {"script", "link", "img", "iframe", "object", "form", "base"} & {name for name, _ in found.elements}
    for name, given in found.elements:
        assert "style" not in given and "src" not in given and "xlink:href" not in given
        assert given.get("href", "#").startswith("#"), name  # type: ignore[union-attr]
    assert "url(" not in text and "@import" not in text
    [style] = re.findall(r"<style>(.*?)</style>", text, flags=re.DOTALL)
    allowed = b64encode(sha256(style.encode()).digest()).decode()
    [policy] = [given["content"] for _, given in found.elements if given.get("http-equiv")]
    assert policy == f"default-src 'none'; style-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"


def test_links_lead_to_sections_and_pictures_and_tables_say_what_they_are(tmp_path: Path) -> None:
    found = Read(made(troubled_run(tmp_path)))
    ids = [given["id"] for _, given in found.elements if "id" in given]
    assert len(ids) == len(set(ids))
    assert {given["href"] for name, given in found.elements if name == "a"} <= {f"#{id_}" for id_ in ids}
    assert found.count("svg") >= 4 and found.count("desc") == found.count("svg") <= found.count("title")
    assert found.count("table") == found.count("caption")
    levels = [int(name[1]) for name, _ in found.elements if re.fullmatch(r"h\d", name)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels)), "no level is skipped"


def test_dates_stand_below_a_picture_of_a_few_weeks_too() -> None:
    day, first = 86_400, 1_776_211_200  # 2026-04-15
    assert [words for _, words in date_ticks(first, first + 10 * day)] == ["2026-04-15", "2026-04-25"]
    assert [words for _, words in date_ticks(first, first + 60 * day)] == ["2026-05", "2026-06"]


def test_incidents_are_counted_as_every_other_view_counts_them(tmp_path: Path) -> None:
    """Losses without a file of their own are listed below, but they are no incidents."""
    told = record("incident", 20, id=1, incident="stuck", run="a", worker="w1", severity="high", outcome="", text="")
    folder = a_run(tmp_path, told, lost("w2", 30), lost("w3", 40))
    IncidentFolder(folder.path).open(Incident("stuck", run="a", worker="w1", started=START + 20))
    material = material_of(folder, START + 100)
    assert "incidents 1" in Read(page(material)).said("Summary")
    assert current(material.view, RunState.OK, START + 100)["incidents"] == len(IncidentFolder(folder.path).all()) == 1


def test_a_large_run_stays_a_page(tmp_path: Path) -> None:
    many = [
        one
        for at in range(1500)
        for one in (
            record("worker-joined", at, worker=f"w{at}", tag=f"kind-{at % 12}"),
            record("scale", at, direction="up", tag="kind-1", count=1, reason="more work"),
            record("task", at, key=f"t{at}", tag="kind-1", worker=f"w{at}", status="failed", error="ValueError: no"),
            record("peaks", at, worker=f"w{at}", tag="kind-1", peaks={"t": 1 + at}),
            record("alert", at, alert="WorkerMemory", state="firing", text=f"w{at} uses 88 %"),
            lost(f"w{at}", at),
        )
    ]
    folder = a_run(tmp_path, *many)
    text = page(material_of(folder, START + 2000))
    assert len(text) < 500_000
    found = Read(text)
    assert "the latest 20" in found.said("Scaling")
    assert "1,500 failures, of which 500 are told" in found.said("Work")
    assert "incidents 0" in found.said("Summary"), "losses without a record of their own are told below"
    assert "no record of their own, of those that are remembered" in found.said("Incidents")
    assert "Alerts: the latest 50 of 1,500" in found.said("Findings and alerts")
