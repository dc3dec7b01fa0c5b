"""Incident records: numbers, damage, secrets, what raises their severity, and what would have prevented them."""

from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from scalable.errors import ScalableError, UsageError
from scalable.observe import RunFolder
from scalable.observe import incidents as module
from scalable.observe.incidents import (
    HIGH,
    MOST_LINES,
    NORMAL,
    Incident,
    IncidentFolder,
    advice,
    earlier,
    evidence_lines,
    severity,
)
from tests.helpers.observe.builders import GIB, START, attempt_ended, lost, record, summed
from tests.helpers.observe.forbidden import forbid
from tests.helpers.observe.reports import report

PLACE = "wait in threading.py:327, called from work.py:12 (train)"


def stuck(at: float = 0.0, guilty: str = PLACE, **changed: Any) -> Incident:
    made = Incident("stuck", run="r-1", attempt=1, worker="w2", tag="standard", started=START, found=START + at)
    return replace(made, guilty=guilty, **changed)


@pytest.fixture
def folder(tmp_path: Path) -> IncidentFolder:
    return IncidentFolder(tmp_path)


# Files


def test_an_incident_is_written_with_the_next_number_and_read_back(folder: IncidentFolder) -> None:
    first, second = folder.open(stuck()), folder.open(stuck(5, evidence={"notes": ["one"]}))
    assert (first.id, second.id) == (1, 2)
    assert [path.name for path in sorted(folder.path.iterdir())] == ["0001.json", "0002.json"]
    assert folder.get(2) == second
    assert folder.all() == [first, second]
    assert folder.damaged == {}


def test_evidence_is_for_its_owner_only_as_logs_are(folder: IncidentFolder) -> None:
    folder.open(stuck())
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


def test_what_became_of_the_run_is_added_later(folder: IncidentFolder) -> None:
    folder.open(stuck(done=("stacks saved",)))
    folder.update(1, outcome="retried: finished in 41 s", done=("tree killed",))
    assert folder.get(1).outcome == "retried: finished in 41 s"
    assert folder.get(1).done == ("stacks saved", "tree killed")
    assert folder.update(1).outcome == "retried: finished in 41 s"


def test_numbers_are_unique_on_a_file_system_without_links(
    folder: IncidentFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(folder, "numbers", list)
    assert [folder.open(stuck()).id for _ in range(3)] == [1, 2, 3]
    assert len(list(folder.path.iterdir())) == 3


def test_damaged_files_are_told_of_and_keep_their_numbers(folder: IncidentFolder) -> None:
    for _ in range(5):
        folder.open(stuck())
    folder.file(1).write_bytes(b'{"kind": "stu')
    folder.file(2).write_bytes(b"\xff\xfe\0")
    folder.file(3).write_text("[" * 100_000, encoding="utf-8")
    folder.file(4).write_text('{"id": 4}', encoding="utf-8")
    (folder.path / "notes.txt").touch()
    (folder.path / "x.json").touch()
    assert [one.id for one in folder.all()] == [5]
    assert sorted(folder.damaged) == ["0001.json", "0002.json", "0003.json", "0004.json"]
    with pytest.raises(ScalableError, match="is damaged"):
        folder.get(1)
    assert folder.open(stuck()).id == 6


def test_fields_that_make_no_sense_are_left_out() -> None:
    found = Incident.of({"kind": "stuck", "run": 7, "started": "now", "evidence": [1], "done": "x", "attempt": -1})
    assert found == Incident("stuck")


def test_an_unknown_number_names_those_there_are(folder: IncidentFolder) -> None:
    with pytest.raises(UsageError, match=r"incident 9 is not recorded in .*; there are none"):
        folder.get(9)
    folder.open(stuck())
    folder.open(stuck())
    with pytest.raises(UsageError, match="those there are: 1, 2"):
        folder.get(9)


def test_a_folder_that_cannot_be_written_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(ScalableError, match="no incident can be recorded in"):
        IncidentFolder(tmp_path / "missing").open(stuck())


def test_no_secret_is_written(folder: IncidentFolder) -> None:
    evidence = {"log": ["DB_PASSWORD=hunter2"], "processes": [{"command": "x --token hunter2"}], "token": "hunter2"}
    folder.open(stuck(evidence=evidence, done=("password=hunter2",), guilty="f in a.py:1 https://me:hunter2@host"))
    assert "hunter2" not in folder.file(1).read_text(encoding="utf-8")


def test_a_record_is_bounded(folder: IncidentFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 100_000)
    folder.open(stuck(evidence={"log": ["x" * 19_000] * 10}))
    assert folder.file(1).stat().st_size < 10_000
    assert "was left out" in folder.get(1).evidence["notes"][0]


# Severity


def test_the_first_incident_is_normal() -> None:
    assert severity(stuck(), []) == (NORMAL, "")


@pytest.mark.parametrize(
    ("before", "level"),
    [
        (stuck(-3600), HIGH),
        (stuck(-3600, guilty=PLACE.replace("12", "14").replace("327", "331")), HIGH),  # lines move
        (stuck(-3600, guilty="spin in work.py:3"), NORMAL),
        (replace(stuck(-3600), kind="crashed"), NORMAL),
        (stuck(-90_000), NORMAL),  # more than 24 h
        (stuck(+10), NORMAL),  # not before
    ],
    ids=["the same", "the same after an edit", "another place", "another kind", "long ago", "later"],
)
def test_the_same_incident_within_a_day_is_serious(before: Incident, level: str) -> None:
    found = severity(stuck(), [before])
    assert found.level == level
    if level == HIGH:
        assert "1 h before (2 times within 24 h)" in found.escalation
        assert "mark the run failed" in found.escalation


def test_a_fork_in_new_code_is_serious_once() -> None:
    warned = stuck(evidence={"fork_warnings": 1})
    assert "assert_fork_safe" in severity(warned, []).escalation
    known = severity(warned, [replace(warned, found=START - 10)])
    assert "assert_fork_safe" not in known.escalation
    assert severity(Incident("fork refused", guilty="fork in f (a.py:1)", found=START), []).level == HIGH


def test_more_than_8_gib_is_serious() -> None:
    assert severity(stuck(evidence={"memory": 8 * GIB}), []).level == NORMAL
    found = severity(stuck(evidence={"memory": 9 * GIB}), [])
    assert found == (HIGH, "it used 9 GiB, more than 8 GiB: find what grows before giving it more")
    assert severity(stuck(evidence={"peak": 9 * GIB, "memory": None}), []).level == HIGH


def test_incidents_of_runs_beside_this_one_count(tmp_path: Path) -> None:
    now = time.time()
    for number in range(3):
        run = RunFolder.create("lab", tmp_path, datetime.fromtimestamp(now - 100 + number, UTC))
        opened = IncidentFolder(run.path).open(replace(stuck(), found=now - 50 + number))
        assert opened.severity == (HIGH if number else NORMAL)
    assert "(3 times within 24 h)" in opened.escalation
    assert len(earlier(run.path, now)) == 3


def test_looking_back_is_bounded_and_survives_damage(tmp_path: Path) -> None:
    run = RunFolder.create("lab", tmp_path)
    folder = IncidentFolder(run.path)
    for _ in range(module.MOST_EARLIER + 10):
        folder.open(stuck(severity=NORMAL))
    folder.file(60).write_text("{", encoding="utf-8")
    assert len(earlier(run.path, time.time())) == module.MOST_EARLIER - 1
    old = time.time() + 2 * 86_400
    assert earlier(run.path, old) == []


# Advice


@pytest.mark.parametrize(
    ("incident", "said"),
    [
        (stuck(), "give that wait a timeout"),
        (stuck(guilty="train in work.py:3"), "scalable.long_step"),
        (stuck(evidence={"fork_warnings": 1}), "pass n_jobs=1, or  policies.fork: deny"),
        (stuck(evidence={"notes": ["child 5 was forked and waits for a lock"]}), "pass n_jobs=1"),
        (stuck(evidence={"notes": ["process 5 is stopped (SIGSTOP)"]}), "somebody stopped the process"),
        (Incident("fork refused"), "policies.fork.allow"),
        (Incident("out of memory", evidence={"peak": 8 * GIB}), "ask for memory: 12GiB (it used 8 GiB)"),
        (Incident("out of memory", evidence={"peak": 8 * GIB + 1}), "ask for memory: 13GiB"),
        (Incident("out of memory", evidence={"limit": GIB}), "ask for memory: 1536MiB"),
        (Incident("out of memory"), "ask for more memory"),
    ],
)
def test_what_would_have_prevented_it_is_said(incident: Incident, said: str, tmp_path: Path) -> None:
    assert any(said in one for one in advice(incident))
    assert IncidentFolder(tmp_path).open(incident).prevent == advice(incident)


def test_incidents_of_others_that_may_not_be_read_keep_nobody_from_recording_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others, own = (RunFolder.create("lab", tmp_path) for _ in range(2))
    IncidentFolder(others.path).open(Incident("stuck", guilty=PLACE))
    forbid(monkeypatch, others.path / "incidents")
    assert IncidentFolder(own.path).open(Incident("stuck", guilty=PLACE)).severity == NORMAL


def test_advice_is_not_made_up() -> None:
    assert advice(Incident("crashed")) == ()
    assert advice(Incident("stuck", evidence={"notes": None, "fork_warnings": "x"})) != ()


def test_a_summary_has_the_guilty_stack_and_the_end_of_the_log_and_is_small() -> None:
    stacks = [
        {"pid": 1, "thread": "MainThread", "frames": ["wait (pool.py:7)"]},
        {"pid": 2, "thread": "MainThread", "frames": ["lock (jobs.py:20)", *["f (x.py:1)"] * 99]},
    ]
    evidence = {"stacks": stacks, "log": [f"{line} {'x' * 5000}" for line in range(500)], "processes": [{}] * 10_000}
    incident = Incident("stuck", guilty="lock in jobs.py:20", evidence=evidence)
    summary = incident.summary()
    [stack] = summary["evidence"]["stacks"]
    assert (stack["pid"], len(stack["frames"])) == (2, 40)
    assert [line.split()[0] for line in summary["evidence"]["log"]] == [str(line) for line in range(460, 500)]
    assert len(json.dumps(summary)) < 100_000 and "processes" not in summary["evidence"]
    assert Incident.of(summary).evidence["stacks"] == [stack]


# Reports


def told(number: int, at: float = 21.0, kind: str = "stuck", run: str = "r-1", **fields: Any) -> dict[str, Any]:
    facts = {"worker": "w1", "tag": "demeter", "text": PLACE, **fields}
    return record("incident", at, id=number, incident=kind, run=run, **facts)


def test_a_report_has_an_incident_once_whether_its_loss_was_told_before_or_after() -> None:
    loss = attempt_ended("r-1", "stuck", at=20)
    for records in ((loss, told(1)), (told(1), loss)):
        found = report(*records)["incidents"]
        assert [(one["id"], one["kind"], one["evidence"]) for one in found] == [(1, "stuck", {"detail": PLACE})]
    assert summed(loss, told(1)).losses == {"stuck": 1}


def test_losses_without_a_record_stay_in_the_report() -> None:
    found = report(told(1), lost("w9", 30), attempt_ended("r-2", "crashed", at=40))["incidents"]
    assert [one["kind"] for one in found] == ["stuck", "worker lost", "crashed"]


def test_an_incident_told_again_replaces_what_was_known() -> None:
    found = report(told(1), told(1, 90, outcome="failed"))["incidents"]
    assert [(one["id"], one["outcome"], one["started"]) for one in found] == [(1, "failed", START + 21)]


def test_records_that_make_no_sense_are_passed_over() -> None:
    for bad in ({"id": "x"}, {"id": -1}, {}, {"id": True}):
        assert report(record("incident", **bad))["incidents"] == []


# Evidence for people


def test_any_evidence_can_be_shown() -> None:
    odd: list[Any] = [{}, {"processes": 3, "stacks": [1, {"frames": None}], "log": "x"}, {"processes": [{}, None]}]
    for found in odd:
        assert all(isinstance(line, str) for line in evidence_lines(found))
    assert len(evidence_lines({"log": ["x"] * 100_000})) == MOST_LINES


def test_files_are_json_that_other_tools_can_read(folder: IncidentFolder) -> None:
    folder.open(stuck(2.1, found_after_s=2.1, threshold_s=300.0))
    found = json.loads(folder.file(1).read_text(encoding="utf-8"))
    assert {"id", "kind", "run", "worker", "started", "found_after_s", "evidence", "outcome"} <= set(found)
    assert next(iter(found)) == "id"


def test_what_is_our_own_is_left_out_of_evidence_for_people() -> None:
    ours = [
        "2026-11-15 16:03:39 - distributed.worker - INFO - Starting",
        "scalable worker: connected to tcp://n1:1 as w",
    ]
    command = '/usr/bin/python -m scalable.worker.runner {"line": 17, "fork": "deny"}'
    process = {"pid": 7, "parent": 1, "state": "waiting", "command": command}
    lines = evidence_lines({"log": [*ours, "waiting for a partner"], "processes": [process]})
    assert lines == [
        "processes", "  7 (of 1)  waiting  /usr/bin/python -m scalable.worker.runner",
        "last lines of the log", "  waiting for a partner",
    ]  # fmt: skip
    assert evidence_lines({"log": ours}) == []
