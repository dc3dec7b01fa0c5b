"""``scalable incidents``: the list, the page of one, what machines get, and what is said when there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalable.observe import RunFolder
from scalable.observe.incidents import Incident, IncidentFolder
from scalable.observe.redact import KNOWN
from scalable.store import IncidentRow, open_store
from tests.helpers.cli.commands import Call, call
from tests.helpers.observe.builders import START, a_run, record, sweep_started, task, unit
from tests.helpers.observe.forbidden import forbid

__all__ = ["call"]  # a fixture

RUNS = Path(".scalable/runs")
MANIFEST = """
version: 1
project: {name: lab}
targets: {here: {provider: local, max_workers: 1}}
components: {model: {}}
"""
EVIDENCE = {
    "notes": ["child 4711 was forked and waits for a lock"],
    "processes": [{"pid": 4711, "parent": 4700, "state": "waiting", "command": "python x.py", "threads": 1}],
    "stacks": [{"pid": 4711, "thread": "MainThread", "active": False, "frames": ["wait (threading.py:327)"]}],
    "log": ["about to clean", "password=hunter2"],
    "fork_warnings": 1,
}


def stuck(**changed: object) -> Incident:
    facts: dict[str, object] = {
        "run": "UNIUSDC / isotonic / fold 0",
        "attempt": 1,
        "worker": "w2",
        "tag": "standard",
        "started": START,
        "found": START + 302.1,
        "found_after_s": 2.1,
        "threshold_s": 300.0,
        "guilty": "os.fork in cleanlab/filter.py:404, called from finetune/cleaning.py:61",
        "evidence": EVIDENCE,
        "done": ("stacks of 3 processes saved", "tree killed (3 processes, none left)"),
        **changed,
    }
    return Incident("stuck", **facts)  # type: ignore[arg-type]


@pytest.fixture
def told(call: Call) -> RunFolder:
    """A run with two incidents, of which the first is settled."""
    folder = a_run(RUNS)
    incidents = IncidentFolder(folder.path)
    incidents.open(stuck())
    incidents.update(1, outcome="run retried: finished in 41 s")
    incidents.open(Incident("out of memory", run="BTC", worker="w1", found=START + 400, evidence={"peak": 8 * 1024**3}))
    return folder


def test_the_page_of_an_incident_says_where_what_was_done_and_what_would_prevent_it(
    call: Call, told: RunFolder
) -> None:
    shown = call("incidents", "show", "1")
    assert shown.status == 0
    lines = shown.out.splitlines()
    head = "incident 1   stuck   UNIUSDC / isotonic / fold 0   worker w2   found 2.1 s after its 300 s"
    assert lines[0] == head
    assert lines[1].split(maxsplit=1) == [
        "guilty",
        "os.fork in cleanlab/filter.py:404, called from finetune/cleaning.py:61",
    ]
    assert lines[2].strip() == "child 4711 was forked and waits for a lock"
    out = " ".join(shown.out.split())
    for text in (
        "done stacks of 3 processes saved, tree killed (3 processes, none left), run retried: finished in 41 s",
        "prevent pass n_jobs=1, or policies.fork: deny",
        "severity high: a fork with threads in code that was not seen to do that",
        "when 2026-04-15 10:20:02 UTC, attempt 1",
        "4711 (of 4700) waiting",
        "stacks of 4711 MainThread wait (threading.py:327)",
        "last lines of the log about to clean password=***",
    ):
        assert text in out, text
    assert "hunter2" not in out


def test_the_list_has_a_line_each_and_names_the_next_step(call: Call, told: RunFolder) -> None:
    shown = call("incidents")
    out = " ".join(shown.out.split())
    assert shown.status == 0
    assert out.startswith(f"{told.run_id} 2 incidents")
    assert "UNIUSDC / isotonic / fold 0" in out
    assert "out of memory" in out
    assert "scalable incidents show 2 shows one with its stacks" in out


def test_machines_get_all_of_it(call: Call, told: RunFolder) -> None:
    found = call("incidents", "--format", "json").json["incidents"]
    assert [one["id"] for one in found] == [1, 2]
    shape = {"id", "kind", "run", "worker", "started", "found_after_s", "evidence", "outcome", "run_id"}
    assert shape <= set(found[0])
    assert found[0]["evidence"]["stacks"] == EVIDENCE["stacks"]
    one = call("incidents", "show", "2", "--format", "json").json["incidents"]
    assert [each["kind"] for each in one] == ["out of memory"]
    assert "12GiB" in one[0]["prevent"][0]


def test_incidents_of_all_runs_and_of_one_by_its_name(call: Call, told: RunFolder) -> None:
    later = a_run(RUNS)
    assert call("incidents").out == f"{later.run_id} has no incidents\n"
    IncidentFolder(later.path).open(Incident("crashed", run="ETH"))
    shown = call("incidents", "--all").out
    assert told.run_id in shown
    assert later.run_id in shown
    assert f"show 2 --run-id {told.run_id}" in " ".join(shown.split())
    assert {one["run_id"] for one in call("incidents", "--all", "--format", "json").json["incidents"]} == {
        told.run_id,
        later.run_id,
    }
    assert "UNIUSDC" in call("incidents", "--run-id", told.run_id).out
    assert call("incidents", "show", "1", "--run-id", told.run_id).status == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "7"), "incident 7 is not recorded in run-"),
        (("show", "7"), "those there are: 1, 2"),
        (("show",), "which one? write e.g.  scalable incidents show 1  (known: 1, 2)"),
        (("show", "one"), "'one' is no number of an incident; write e.g."),
        (("export", "7"), "those there are: 1, 2"),
        (("export",), "which one? write e.g.  scalable incidents export 1  (known: 1, 2)"),
        (("show", "1", "--output", "x.json"), "scalable incidents export 1"),
        (("export", "1", "--output", "."), "is a folder"),
        (("show", "1", "--all"), "write --run-id ID instead of --all"),
        (("--all", "--run-id", "x"), "--all and --run-id cannot both be given"),
        (("--run-id", "x"), "run 'x' is not recorded"),
        (("shout",), "invalid choice"),
    ],
)
def test_what_cannot_be_meant_ends_with_status_2_and_words(
    call: Call, told: RunFolder, arguments: tuple[str, ...], said: str
) -> None:
    shown = call("incidents", *arguments)
    assert shown.status == 2
    assert said in shown.err


def test_without_runs_or_incidents_it_says_so(call: Call) -> None:
    assert call("incidents").status == 2
    assert call("incidents", "--all").out == "no run in .scalable/runs has incidents\n"
    assert call("incidents", "--all", "--format", "json").json["incidents"] == []


@pytest.mark.parametrize("arguments", [(), ("--all",)])
def test_failures_are_told_of_beside_incidents(call: Call, arguments: tuple[str, ...]) -> None:
    folder = a_run(RUNS, task("a", 10, ok=False), task("b", 11, ok=False))
    assert call("incidents", *arguments, "--format", "json").json["failures"] == {folder.run_id: 2}
    assert f"2 failures: scalable report --run-id {folder.run_id}" in call("incidents", *arguments).out
    IncidentFolder(folder.path).open(stuck())
    out = call("incidents", *arguments).out
    assert "1 incident\n" in out and "2 failures" in out


def test_incidents_of_a_run_whose_folder_is_elsewhere_come_from_the_store(call: Call) -> None:
    Path("scalable.yaml").write_text(MANIFEST, encoding="utf-8")
    assert call("incidents").status == 2 and not Path(".scalable/results.db").exists(), "who reads makes no store"
    summary = {**stuck(outcome="retried: finished 4 s later").summary(), "folder": "pod-1:/state/runs/run-b"}
    with open_store("sqlite:///.scalable/results.db") as store:
        for number, run_id in enumerate(("run-a/1", "run-b/1", "run-b/2")):
            row = IncidentRow(id=run_id, kind="stuck", started=START + number, worker="w2", summary=summary)
            assert store.put_incident(row).safe
    found = call("incidents", "--format", "json").json["incidents"]
    assert [(each["run_id"], each["id"], each["stored"]) for each in found] == [("run-b", 1, True), ("run-b", 2, True)]
    assert len(call("incidents", "--all", "--format", "json").json["incidents"]) == 3
    assert call("incidents", "--run-id", "run-a", "--format", "json").json["incidents"][0]["run_id"] == "run-a"
    listed = " ".join(call("incidents").out.split())
    assert "run-b 2 incidents" in listed
    assert "from the store; all of the evidence was written to pod-1:/state/runs/run-b" in listed
    page = call("incidents", "show", "2", "--run-id", "run-b")
    assert page.status == 0 and "wait (threading.py:327)" in page.out and "about to clean" in page.out
    assert call("incidents", "show", "3").status == call("incidents", "--run-id", "run-c").status == 2


JOB = "UNIUSDC / isotonic / fold 0"
AXES = {"variant": ["off", "isotonic"], "asset": ["UNIUSDC"], "fold": ["0", "1"], "cost_bps": ["5", "10"]}


def test_an_exported_incident_has_evidence_arguments_versions_and_code(call: Call) -> None:
    settings = {"folds": 2, "exchange_password": "hunter3"}
    folder = a_run(
        RUNS,
        sweep_started(axes=AXES, code="c0de", run="model:work", settings=settings, base={"depth": 3}),
        record("sweep-units", 9, sweep="calibration", unit_cells={JOB: "4-5", "another": "0-1"}),
        version="1.2.3",
        python="3.12.1",
        libraries={"numpy": "2.1"},
    )
    IncidentFolder(folder.path).open(stuck())
    written = call("incidents", "export", "1")
    assert (written.status, written.out) == (0, "wrote incident-1.json\n")
    content = json.loads(Path("incident-1.json").read_text(encoding="utf-8"))
    assert (content["run_id"], content["stored"]) == (folder.run_id, False)
    assert content["incident"]["evidence"]["stacks"] == EVIDENCE["stacks"]
    assert content["incident"]["evidence"]["log"] == ["about to clean", "password=***"]
    assert content["versions"] == {"scalable": "1.2.3", "python": "3.12.1", "numpy": "2.1"}
    assert (content["code"], content["run"]["target"]) == ({"calibration": "c0de"}, "hpc")
    [job] = content["jobs"]
    assert (job["job"], job["sweep"], job["workload"], job["code"]) == (JOB, "calibration", "model:work", "c0de")
    assert job["arguments"]["settings"] == {"folds": 2, "exchange_password": "***"}
    assert (job["arguments"]["base"], job["arguments"]["trials"]) == ({"depth": 3}, 30)
    cell = {"variant": "isotonic", "asset": "UNIUSDC", "fold": "0"}
    assert job["arguments"]["rows"] == [{**cell, "cost_bps": "5"}, {**cell, "cost_bps": "10"}]
    assert call("incidents", "export", "1", "--run-id", folder.run_id, "--output", "-").json == content
    assert call("incidents", "export", "1", "--output", "mine.json").out == "wrote mine.json\n"
    assert json.loads(Path("mine.json").read_text(encoding="utf-8")) == content


def test_a_lost_worker_is_exported_with_all_of_its_jobs(call: Call) -> None:
    folder = a_run(RUNS, sweep_started(code="c0de"), *unit("a"))
    IncidentFolder(folder.path).open(Incident("worker lost", worker="w1", evidence={"jobs": ["a", "a task"]}))
    jobs = call("incidents", "export", "1", "--output", "-").json["jobs"]
    assert [(job["job"], job.get("code")) for job in jobs] == [("a", "c0de"), ("a task", None)]
    assert jobs[0]["arguments"]["rows"] == [] and jobs[1]["arguments"] is None


def test_an_exported_incident_holds_no_secret(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "correct-horse-battery"
    folder = a_run(RUNS, command=["run", "--token", "swordfish99"])
    evidence = {**EVIDENCE, "log": [f"logged in with {secret}", "password=hunter2"]}
    IncidentFolder(folder.path).open(stuck(guilty=f"login({secret!r}) in a.py:1", evidence=evidence))
    (folder.path / "works").mkdir()
    folder.work(JOB).write_bytes(b"not a pickle")
    assert secret in (folder.path / "incidents" / "0001.json").read_text(encoding="utf-8")
    monkeypatch.setenv("EXCHANGE_API_KEY", secret)
    monkeypatch.setattr(KNOWN, "looked", float("-inf"))
    assert call("incidents", "export", "1").status == 0
    content = Path("incident-1.json").read_text(encoding="utf-8")
    assert "logged in with ***" in content
    assert not any(each in content for each in (secret, "hunter2", "swordfish99"))


def test_an_incident_that_only_the_store_has_is_exported_as_far_as_it_goes(call: Call) -> None:
    Path("scalable.yaml").write_text(MANIFEST, encoding="utf-8")
    versions = {"scalable": "1.2.3", "python": "3.12.1", "numpy": "2.1"}
    summary = {**stuck().summary(), "folder": "pod-1:/state/runs/run-b", "versions": versions}
    with open_store("sqlite:///.scalable/results.db") as store:
        row = IncidentRow(id="run-b/1", kind="stuck", started=START, run=JOB, worker="w2", summary=summary)
        assert store.put_incident(row).safe
    content = call("incidents", "export", "1", "--output", "-").json
    assert (content["run_id"], content["folder"], content["stored"]) == ("run-b", "pod-1:/state/runs/run-b", True)
    assert content["incident"]["evidence"]["stacks"] == EVIDENCE["stacks"]
    assert content["jobs"] == [{"job": JOB, "arguments": None}]
    assert content["versions"] == versions
    assert call("incidents", "export", "2").status == 2 and not Path("incident-2.json").exists()


def test_incidents_that_may_not_be_read_are_told_as_that(
    call: Call, told: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = a_run(RUNS)
    (others.path / "incidents").mkdir()
    forbid(monkeypatch, others.path / "incidents")
    shown = call("incidents")
    assert (shown.status, shown.out) == (1, "")
    assert f"{others.path / 'incidents'} may not be read: Permission denied" in " ".join(shown.err.split())
    everything = call("incidents", "--all", "--format", "json")
    assert everything.status == 1 and len(everything.json["incidents"]) == 2, "those that may be read are listed"
    assert len(everything.json["unreadable"]) == 1
    assert call("incidents", "show", "1").status == 1
    forbid(monkeypatch, told.path / "incidents" / "0001.json", told.journal)
    found = call("incidents", "--run-id", told.run_id, "--format", "json")
    assert found.status == 1 and [each["id"] for each in found.json["incidents"]] == [2]
    assert len(found.json["unreadable"]) == 2


def test_damaged_records_are_told_of(call: Call, told: RunFolder) -> None:
    (told.path / "incidents" / "0001.json").write_text("{", encoding="utf-8")
    shown = call("incidents")
    assert shown.status == 0
    assert "incidents/0001.json could not be read" in shown.out
    assert "1 incident\n" in shown.out
    assert [Path(one).name for one in call("incidents", "--format", "json").json["damaged"]] == ["0001.json"]
    assert call("incidents", "show", "1").status == 1


def test_what_others_wrote_cannot_steer_the_terminal(call: Call) -> None:
    folder = a_run(RUNS)
    nasty = "\x1b[2Jrun\r\n[bold]x"
    evidence = {"log": [nasty], "notes": [nasty], "stacks": [{"pid": 1, "thread": nasty, "frames": [nasty]}]}
    IncidentFolder(folder.path).open(Incident(nasty, run=nasty, worker=nasty, guilty=nasty, evidence=evidence))
    for arguments in (("incidents",), ("incidents", "show", "1")):
        out = call(*arguments).out
        assert "\x1b" not in out
        assert "\r" not in out
        assert "[bold]x" in out


def test_a_report_shows_an_incident_that_cost_nothing(call: Call) -> None:
    a_run(
        RUNS, record("incident", 20, id=1, incident="fork refused", run="r-1", worker="w1", text="fork in f (a.py:1)")
    )
    out = " ".join(call("report").out.split())
    assert "fork refused r-1 on w1 fork in f (a.py:1)" in out
